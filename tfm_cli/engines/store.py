"""Converted networks, kept beside their model: made once, proved, whole or not at all, made anew when the model changes."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tfm_cli.engines.ctranslate2 import ABOUT, Unsuited
from tfm_cli.folder import WEIGHTS, read_config

KEPT = "ctranslate2"  # the subfolder of a model folder
_VERSION = 1  # of what `convert` writes: another one makes all networks anew
_MAKING, _ABANDONED = ".making-", 3600.0  # seconds after which what was begun is no one's any more


def converted(folder: Path, precision: str, tell: Callable[[str], None]) -> Path:
    """The network of a model folder for CTranslate2, from where it is kept or made now.

    It is kept in the model folder, and where that cannot be written to, in the user's cache. Its name holds a fingerprint of the
    weights and the configuration, so that one of other weights is never taken, nor half a one: it gets its name when it is whole.

    Args:
        precision: float32 or int8.
        tell: told when one has to be made.

    Raises:
        Unsuited: CTranslate2 has no such network, it translates differently, or there is no place to keep it.
    """
    name = f"{precision}-{fingerprint(folder)[:16]}"
    places = [folder / KEPT, cache()]
    for place in places:
        if (place / name / ABOUT).is_file():
            return place / name
    from tfm_cli.engines.convert import convert
    from tfm_cli.engines.proof import prove

    tell(f"Converting {folder} for CTranslate2, once.")
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
            fresh = place / f"{_MAKING}{name}-{os.getpid()}"
            fresh.mkdir()
        except OSError:
            continue
        try:
            convert(folder, fresh, precision)
            prove(folder, fresh, precision)
            return _put_in_place(fresh, place / name)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    raise Unsuited(f"neither {places[0]} nor {places[1]} can be written to", where=str(folder))


def fingerprint(folder: Path) -> str:
    """SHA-256 of the weights, and of what in the configuration decides how they are read."""
    with (folder / WEIGHTS).open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    config = read_config(folder)
    meaning = [_VERSION, weights, config["family"], config["shape"], config["tokenizer_fingerprint"]]
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def cache() -> Path:
    """Where networks are kept whose model folder cannot be written to."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "tfm" / KEPT


def _put_in_place(fresh: Path, final: Path) -> Path:
    """Give a whole folder its name; where another process was faster, its folder is as good."""
    try:
        fresh.rename(final)
    except OSError:
        if not (final / ABOUT).is_file():
            raise
    precision = final.name.partition("-")[0]
    for other in final.parent.iterdir():
        # In the cache the networks of several models lie side by side.
        outdated = final.parent != cache() and other.name.startswith(f"{precision}-") and other != final
        if outdated or (other.name.startswith(_MAKING) and _age(other) > _ABANDONED):
            shutil.rmtree(other, ignore_errors=True)
    return final


def _age(path: Path) -> float:
    """Seconds since it was last changed; 0 where it is gone by now."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
