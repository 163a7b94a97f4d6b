"""Generated code for one sentence: used where it may be, equal to the layers, made once, refused with the reason."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.engines.models import SENTENCES, saved_model
from tfm_cli.device import cpp_compiler
from tfm_cli.engines import codegen
from tfm_cli.engines.codegen import GENERATED, LONGEST, Part
from tfm_cli.engines.compiled import CompiledStack, CompiledWords, check_compilable, use_compiled
from tfm_cli.engines.pytorch import load
from tfm_cli.errors import TfmError
from tfm_cli.model import Model, build_family, save_model
from tfm_cli.model import load_model as read
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END
from tfm_cli.translator import Batching, Translator

SHAPE = Shape(dim=32, ffn_dim=64, heads=4, encoder_layers=2, decoder_layers=2)
SOURCES = [[5, 6, 7, 8, END], [9, END], [10, 11, 12, 13, 14, 15, END], [END]]
CPU = torch.device("cpu")
has_compiler = pytest.mark.skipif(shutil.which(cpp_compiler()) is None, reason="there is no C++ compiler")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ctc model of random weights."""
    folder = tmp_path_factory.mktemp("models") / "ctc"
    made = read(saved_model(folder), CPU)
    torch.manual_seed(4)
    family = build_family("ctc", made.family.network.shape, *(made.tokenizers.source.vocab_size,) * 2)
    family.network.load_state_dict(made.family.network.state_dict())
    save_model(folder, Model(family, "ctc", made.tokenizers))
    return folder


class Spy:
    """Runs a stack as generated code would, and counts."""

    def __init__(self, stack: torch.nn.Module) -> None:
        self.stack, self.calls = stack, 0

    def __call__(self, *rows: torch.Tensor) -> tuple[torch.Tensor]:
        self.calls += 1
        found: torch.Tensor = self.stack(
            *rows, *[None] * (len(rows) == 2), **{"causal": False} if len(rows) == 2 else {}
        )
        return (found,)


@pytest.mark.parametrize("name", ["oneshot", "ctc", "dag"])
def test_sentences_alone_go_through_the_code_and_batches_do_not(name: str) -> None:
    torch.manual_seed(2)
    family = build_family(name, SHAPE, 30, 30).eval()
    options = NonAutoregressiveDecodeOptions()
    alone = [family.decode(pad([source]), options)[0][0] for source in SOURCES]
    together = family.decode(pad(SOURCES), options)
    spies = []
    for stack in ("encoder", "decoder"):
        plain = getattr(family.network, stack)
        spies.append(Spy(plain))
        setattr(family.network, stack, CompiledStack(plain, spies[-1]))
    assert family.decode(pad(SOURCES), options) == together
    assert [spy.calls for spy in spies] == [0, 0]
    assert [family.decode(pad([source]), options)[0][0] for source in SOURCES] == alone
    assert spies[0].calls == 3  # a row of one position goes through the layers
    assert spies[1].calls >= 3


def test_a_row_longer_than_the_code_takes_goes_through_the_layers() -> None:
    layers = torch.nn.Identity()
    stack = CompiledStack(layers, lambda x: (x + 1,))
    for length, added in ((1, 0), (2, 1), (LONGEST, 1), (LONGEST + 1, 0)):
        assert stack(torch.zeros(1, length, 4)).mean() == added


def test_forbidden_words_are_passed_over_and_too_many_states_left_to_the_layers() -> None:
    words = CompiledWords(lambda states, bias: (torch.ones(len(states)), bias), vocabulary=5)
    for forbidden, bias in (((1, 3), [0, -torch.inf, 0, -torch.inf, 0]), ((), [0] * 5)):
        found = words(torch.zeros(4, 2), forbidden)
        assert found is not None
        assert found[1].tolist() == bias
    assert words(torch.zeros(1, 2), ()) is None
    assert words(torch.zeros(LONGEST + 1, 2), ()) is None


@has_compiler
def test_generated_code_translates_and_scores_as_the_layers_do(folder: Path) -> None:
    told: list[str] = []
    plain, tokenizers = load([folder], "cpu")
    quick, _ = load([folder], "cpu", compile=True, tell=told.append)
    assert len(told) == 1
    assert str(folder) in told[0]
    lines = [*SENTENCES[:12], "", " ".join(SENTENCES)]
    slow, fast = Translator(plain, tokenizers), Translator(quick, tokenizers)
    one_by_one = Batching(size=1)
    expected = [each.text for each in slow.stream(lines, batching=one_by_one)]
    assert len(set(expected)) > 3
    assert [each.text for each in fast.stream(lines, batching=one_by_one)] == expected
    assert fast.translate(lines) == expected
    for source in ([5, 6, 7, END], [9, 8, 100, 11, END]):
        mine, theirs = (each.family.score(Batch.of([source], [[6, 7, END]]), None)[0] for each in (quick, plain))
        assert mine.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-3)

    load([folder], "cpu", compile=True, tell=pytest.fail)  # it is kept
    [kept] = (folder / GENERATED.name).iterdir()
    (kept / "decoder.pt2").write_bytes(b"damaged")
    again, _ = load([folder], "cpu", compile=True, tell=told.append)
    assert len(told) == 2
    assert [each.text for each in Translator(again, tokenizers).stream(lines, batching=one_by_one)] == expected


def test_code_is_bound_to_the_machine_and_the_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = GENERATED._name(folder, "float32")
    assert GENERATED._name(folder, "float32") == here
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    assert GENERATED._name(folder, "float32") != here


def test_code_that_computes_something_else_is_refused_and_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("compiled"))
    monkeypatch.setattr(Part, "write", lambda part, family, file: file.touch())
    monkeypatch.setattr(codegen, "_loaded", lambda file, workers: lambda *rows: rows[:1])
    family = read(model, CPU).family
    for tell in (lambda message: None, pytest.fail):
        with pytest.raises(TfmError, match="the generated encoder differs from its layers"):
            use_compiled(family, model, "float32", tell=tell)
    assert not isinstance(family.network.encoder, CompiledStack)


def test_without_a_compiler_it_is_refused_and_nothing_is_left(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("compiled"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(TfmError, match="needs the C\\+\\+ compiler no-such-compiler"):
        load([model], "cpu", compile=True)
    assert not list((model / "compiled").iterdir())


@pytest.mark.parametrize("broken", [RuntimeError("cc1plus: out of memory\nand more"), AssertionError()])
def test_what_torch_cannot_compile_is_told_in_one_line(
    broken: Exception, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise broken

    model = shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("compiled"))
    monkeypatch.setenv("CXX", shutil.which("sh") or "sh")
    monkeypatch.setattr(Part, "write", fail)
    with pytest.raises(TfmError, match="torch cannot compile it here") as caught:
        load([model], "cpu", compile=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("device", "precision", "reason"), [("cuda", "float32", "for CPUs"), ("cpu", "int8", "not in int8")]
)
def test_what_cannot_be_compiled_is_named(folder: Path, device: str, precision: str, reason: str) -> None:
    with pytest.raises(TfmError, match=reason):
        check_compilable([folder], torch.device(device), precision)


def test_a_model_that_writes_from_left_to_right_is_left_to_ctranslate2(tmp_path: Path) -> None:
    with pytest.raises(TfmError, match="from left to right"):
        load([saved_model(tmp_path)], "cpu", compile=True)
    assert not (tmp_path / "compiled").exists()


def test_the_note_beside_the_code_says_what_it_is_for(folder: Path) -> None:
    for about in (folder / "compiled").glob("*/tfm.json"):
        assert json.loads(about.read_text())["precision"] == "float32"
