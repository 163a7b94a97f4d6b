"""Generated code for one sentence: used where it may be, equal to the layers, made once, refused with the reason."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.toys import write_lines
from tests.unit.engines.models import SENTENCES, saved_model
from tfm_cli.cli import app
from tfm_cli.device import cpp_compiler
from tfm_cli.engines import codegen
from tfm_cli.engines.codegen import GENERATED, LONGEST, PARTS, Damaged, Part, load_code
from tfm_cli.engines.compiled import CompiledStack, CompiledWords, use_compiled
from tfm_cli.engines.pytorch import load
from tfm_cli.engines.store import ABOUT
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
def test_generated_code_translates_and_scores_as_the_layers_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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

    assert not (folder / "compiled").exists()  # code is not taken from where a model comes from
    [place] = GENERATED._places(folder)
    [kept] = place.iterdir()
    note = json.loads((kept / ABOUT).read_text())
    assert note["precision"] == "float32"
    Translator.load(folder, "cpu", compile=True)  # it is kept
    assert [kept] == list(place.iterdir())
    write_lines(folder.parent / "lines.txt", lines)
    words = ["translate", "--model", str(folder), "--device", "cpu", "--input", str(folder.parent / "lines.txt")]
    assert app.run([*words, "--compile", "--batch-size", "1", "--threads", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == expected
    assert "Generating" not in shown.err

    code = bytearray((kept / "decoder.pt2").read_bytes())
    code[len(code) // 2] ^= 1
    (kept / "decoder.pt2").write_bytes(code)
    with pytest.raises(Damaged, match="not what was written"):
        load_code(kept)


def test_code_is_bound_to_the_machine_and_the_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = GENERATED._name(folder, "float32")
    assert GENERATED._name(folder, "float32") == here
    assert GENERATED._name(folder, "bfloat16").partition("-")[2] == here.partition("-")[2]
    monkeypatch.setattr(codegen, "_instructions", lambda: ["another"])
    assert GENERATED._name(folder, "float32") != here


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The compiler is not called: what it should write is empty, and said here."""
    written: list[str] = []

    def touch(part: Part, family: object, file: Path) -> None:
        written.append(file.name)
        file.touch()

    monkeypatch.setenv("CXX", shutil.which("sh") or "sh")
    monkeypatch.setattr(Part, "write", touch)
    return written


def test_code_that_computes_something_else_is_refused_and_remembered(
    folder: Path, unwritten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codegen, "_loaded", lambda file: lambda *rows: rows[:1])
    family = read(folder, CPU).family
    for tell in (lambda message: None, pytest.fail):
        with pytest.raises(TfmError, match="the generated encoder differs from its layers"):
            use_compiled(family, folder, "float32", tell)
    assert not isinstance(family.network.encoder, CompiledStack)
    assert len(unwritten) == len(PARTS)


def test_damaged_code_is_made_once_more(
    folder: Path, unwritten: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(codegen, "_prove", lambda *given: None)
    monkeypatch.setattr(codegen, "_loaded", lambda file: lambda *rows: rows)
    for damage in (lambda kept: (kept / "words.pt2").write_bytes(b"x"), lambda kept: (kept / "words.pt2").unlink()):
        use_compiled(read(folder, CPU).family, folder, "float32")
        before = len(unwritten)
        [kept] = next(GENERATED._places(folder)).iterdir()
        damage(kept)
        use_compiled(read(folder, CPU).family, folder, "float32")
        assert len(unwritten) == before + len(PARTS)


def test_a_loader_of_another_version_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*given: object) -> None:
        raise TypeError("incompatible constructor arguments")

    monkeypatch.setattr(torch._C._aoti, "AOTIModelPackageLoader", other)
    monkeypatch.setattr(torch._inductor, "aoti_load_package", lambda path: lambda x: [x + 1])
    assert codegen._loaded(Path("words.pt2"))(torch.zeros(1))[0].item() == 1


def test_without_a_compiler_it_is_refused_and_nothing_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(TfmError, match="needs the C\\+\\+ compiler no-such-compiler"):
        load([folder], "cpu", compile=True)
    assert not list(next(GENERATED._places(folder)).iterdir())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (RuntimeError("C++ compile error\n\ncommand\nx.cpp:1: error: no omp.h\nmore"), "x.cpp:1: error: no omp.h"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_what_torch_cannot_compile_is_told_in_one_line_and_tried_again(
    broken: Exception, why: str, folder: Path, unwritten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def fail(*given: object) -> None:
        tries.append(given)
        raise broken

    monkeypatch.setattr(Part, "write", fail)
    for _ in range(2):
        with pytest.raises(TfmError, match=re.escape(why)) as caught:
            load([folder], "cpu", compile=True)
        assert "\n" not in str(caught.value)
    assert len(tries) == 2


def test_a_full_disk_is_told_and_not_remembered(
    folder: Path, unwritten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Part, "write", full)
    with pytest.raises(TfmError, match=r"cannot be written.*No space left"):
        load([folder], "cpu", compile=True)
    assert not list(next(GENERATED._places(folder)).iterdir())


def test_what_cannot_be_compiled_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TfmError, match="not in int8"):
        load([folder], "cpu", "int8", compile=True)
    with pytest.raises(TfmError, match="not for an ensemble"):
        load([folder, folder], "cpu", compile=True)
    with pytest.raises(TfmError, match="from left to right"):
        load([saved_model(tmp_path)], "cpu", compile=True)
    with pytest.raises(TfmError, match="kernels of its own"):
        Translator.load(folder, engine="ctranslate2", compile=True)
    monkeypatch.setattr("tfm_cli.engines.pytorch.pick_device", lambda name: torch.device("cuda"))
    with pytest.raises(TfmError, match="for CPUs"):
        load([folder], "cuda", compile=True)


def test_what_the_command_line_and_a_project_file_say_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "lines.txt", SENTENCES[:2])
    left = saved_model(tmp_path / "left")
    words = ["translate", "--device", "cpu", "--threads", "1", "--input", "lines.txt"]
    typed = {
        ("--model", str(folder)): "error: --compile: generated code serves lines that come one at a time",
        ("--model", str(left), "--batch-size", "1"): "error: --compile: code is generated for models that write all",
        (
            "--model",
            str(folder),
            "--batch-size",
            "1",
            "--precision",
            "int8",
        ): "not in int8. Use --precision bfloat16, or",
    }
    for given, told in typed.items():
        assert app.run([*words, *given, "--compile"]) == 2
        assert told in capsys.readouterr().err
    (tmp_path / "tfm.toml").write_text("[translate]\ncompile = true\n")
    assert app.run([*words, "--model", str(folder)]) == 0  # it is meant for lines that come one at a time
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert app.run([*words, "--model", str(left), "--batch-size", "1"]) == 2
    told = capsys.readouterr().err
    assert "[translate] compile: code is generated for models" in told
    assert "or add --no-compile." in told
    assert app.run([*words, "--model", str(left), "--batch-size", "1", "--no-compile"]) == 0
