"""Fixtures that several rooms' tests share."""

import os
from pathlib import Path

import pytest

from tests.toys import make_data, reverse


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora, for tests that need them."""
    folder = os.environ.get("TFM_CORPORA")
    if not folder:
        pytest.skip("TFM_CORPORA names no folder of real corpora")
    return Path(folder)


@pytest.fixture(scope="session")
def reverse_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy sentences and their words in reverse order: a task of reordering."""
    return make_data(tmp_path_factory.mktemp("reverse"), reverse)
