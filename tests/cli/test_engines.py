"""`tfm translate --engine` and `tfm export` in processes of their own, with the committed model that writes words in reverse."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ctranslate2")

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
SOURCES, ANSWERS = EXPECTED["sources"], EXPECTED["beam 5"]
TEXT = "".join(f"{source}\n" for source in SOURCES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model, converted already."""
    folder = tmp_path_factory.mktemp("models") / "run"
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("ctranslate2"))
    assert tfm(folder, "--engine", "ctranslate2").returncode == 0
    return folder


def tfm(model: Path, *words: str, stdin: str = TEXT, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run ``tfm translate`` and say at the end on stderr whether torch was loaded; ``before`` is Python that runs first."""
    code = (
        f"import sys; {before}; from tfm_cli.cli.app import run; code = run(sys.argv[1:]);"
        "print('torch' if 'torch' in sys.modules else 'no torch', file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "translate", "--model", str(model), "--device", "cpu", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, cwd=model.parent)


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stderr.splitlines()


@pytest.mark.parametrize("words", [(), ("--engine", "ctranslate2"), ("--batch-size", "1"), ("--workers", "3")])
def test_translations_come_without_torch(model: Path, words: tuple[str, ...]) -> None:
    done = tfm(model, *words)
    assert (done.returncode, done.stdout.splitlines(), told(done)) == (0, ANSWERS, ["no torch"])


@pytest.mark.parametrize("words", [("--workers", "3"), ("--threads", "2"), ("--batch-size", "1")])
def test_torch_shares_out_batches(model: Path, words: tuple[str, ...]) -> None:
    lines = [SOURCES[i % len(SOURCES)] for i in range(100)]
    done = tfm(model, "--engine", "torch", "--batch-tokens", "40", *words, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [ANSWERS[i % len(ANSWERS)] for i in range(100)]


def test_the_first_time_converts_and_says_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("ctranslate2"))
    for torch in ("torch", "no torch"):
        done = tfm(folder)
        assert (done.returncode, done.stdout.splitlines(), told(done)) == (0, ANSWERS, [torch])
    assert len(list((folder / "ctranslate2").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "before", "engine"),
    [
        ((), "pass", "no torch"),
        (("--engine", "torch"), "pass", "torch"),
        ((), "sys.modules['ctranslate2'] = None", "torch"),
        (("--no-repeat-ngram", "9"), "pass", "torch"),
    ],
)
def test_int8_translates_alike(model: Path, words: tuple[str, ...], before: str, engine: str) -> None:
    """On either engine; torch's is there too for what CTranslate2 cannot do."""
    if engine == "no torch":
        tfm(model, "--precision", "int8")  # converts
    done = tfm(model, "--precision", "int8", *words, before=before)
    assert done.returncode == 0, done.stderr
    assert told(done)[-1] == engine
    same = sum(one == other for one, other in zip(done.stdout.splitlines(), ANSWERS, strict=True))
    assert same >= len(ANSWERS) - 2


@pytest.mark.parametrize(
    "words",
    [("--scores",), ("--n-best", "4"), ("--format", "jsonl", "--scores"), ("--n-best", "3", "--length-penalty", "0")],
)
def test_numbers_are_those_of_torch(model: Path, words: tuple[str, ...]) -> None:
    quick, slow = (tfm(model, *words, "--engine", engine) for engine in ("ctranslate2", "torch"))
    assert (quick.returncode, slow.returncode) == (0, 0), quick.stderr + slow.stderr
    assert (told(quick)[-1], told(slow)[-1]) == ("no torch", "torch")
    (texts, numbers), (other_texts, other_numbers) = (read(each.stdout, "jsonl" in words) for each in (quick, slow))
    assert texts == other_texts
    assert numbers == pytest.approx(other_numbers, abs=1e-3)


def read(output: str, is_json: bool) -> tuple[list[object], list[float]]:
    """All that is no number in an output, and all that is."""
    if not is_json:
        lines = [line.split(" ||| ") for line in output.splitlines()]
        return [line[:2] for line in lines], [float(line[2]) for line in lines]
    found = [each for line in output.splitlines() for each in json.loads(line)["translations"]]
    numbers = [number for each in found for number in (each["score"], each["log_prob"], *each["token_log_probs"])]
    return [(each["text"], each["finished"], each["tokens"]) for each in found], numbers


def test_given_translations_are_scored_without_torch(model: Path, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("".join(f"{answer}\n" for answer in reversed(ANSWERS)))
    done = [tfm(model, "--score", str(tmp_path / "given"), "--engine", engine) for engine in ("auto", "torch")]
    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    assert told(done[0]) == ["no torch"]
    one, other = ([float(number) for number in each.stdout.split()] for each in done)
    assert one == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--sample",), "samples"),
        (("--no-repeat-ngram", "2"), "repetitions"),
        (("--model", "run", "run"), "ensemble"),
        (("--max-source-tokens", "9000"), "positions"),
    ],
)
def test_what_it_cannot_do_is_torchs_and_said_in_one_line(model: Path, words: tuple[str, ...], reason: str) -> None:
    done = tfm(model, *words)
    assert done.returncode == 0, done.stderr
    lines = [line for line in told(done) if "did not end" not in line]
    assert lines[0].startswith("Engine: torch, since CTranslate2")
    assert reason in lines[0]
    assert lines[1:] == ["torch"]
    refused = tfm(model, *words, "--engine", "ctranslate2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: --engine ctranslate2: CTranslate2 ")
    assert reason in refused.stderr


MISSING = "sys.modules['ctranslate2'] = None"


def test_without_the_package(model: Path) -> None:
    done = tfm(model, before=MISSING)
    assert (done.returncode, done.stdout.splitlines(), told(done)) == (0, ANSWERS, ["torch"])
    refused = tfm(model, "--engine", "ctranslate2", before=MISSING)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: --engine")
    assert "pip install" in refused.stderr


@pytest.mark.parametrize(
    "broken", ["raise OSError('libctranslate2.so is gone')", "pass", "__version__ = '3.1.0'; Translator = None"]
)
def test_a_broken_package_is_told_and_torch_translates(model: Path, tmp_path: Path, broken: str) -> None:
    (tmp_path / "ctranslate2").mkdir()
    (tmp_path / "ctranslate2" / "__init__.py").write_text(broken + "\n")
    before = f"sys.path.insert(0, {str(tmp_path)!r})"
    done = tfm(model, before=before)
    assert (done.returncode, done.stdout.splitlines(), told(done)[-1]) == (0, ANSWERS, "torch")
    assert told(done)[0].startswith("Engine: torch, since the package ctranslate2 ")
    refused = tfm(model, "--engine", "ctranslate2", before=before)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: --engine ctranslate2: the package ctranslate2 ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", "0"), "--workers"),
        (("--engine", "torch", "--workers", "2", "--batch-size", "1"), "--workers"),
        (("--engine", "torch", "--workers", "2", "--threads", "1"), "--workers"),
        (("--engine", "ctranslate2", "--device", "cuda"), "CPU"),
        (("--engine", "ctranslate"), "Did you mean ctranslate2"),
    ],
)
def test_what_does_not_go_together(model: Path, words: tuple[str, ...], message: str) -> None:
    done = tfm(model, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in told(done)[-2]


def test_eval_with_both_engines(model: Path, tmp_path: Path) -> None:
    for name, lines in (("source", SOURCES), ("reference", ANSWERS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    code = (
        "import sys; from tfm_cli.cli.app import run; code = run(sys.argv[1:]);"
        "print('torch' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    for engine in ("torch", "ctranslate2"):
        words = ["--source", "source", "--reference", "reference", "--output", engine, "--bleu", "--json"]
        command = [sys.executable, "-c", code, "eval", "--model", str(model), "--engine", engine, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1] == str(engine == "torch")
        assert json.loads(done.stdout)["scores"][0]["value"] == pytest.approx(100)
        assert (tmp_path / engine).read_text().splitlines() == ANSWERS


def test_export(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfm_cli", "export"]
    done = subprocess.run(
        [*command, str(model), "--quantization", "int8"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    output = Path(done.stdout.strip())
    assert output == model.with_name("run-ctranslate2")
    assert {"model.bin", "config.json", "tokenizer.json", "README.md"} <= {path.name for path in output.iterdir()}
    again = subprocess.run([*command, str(model)], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 2
    assert again.stderr.startswith(f"error: {output}: it is already there.")
    wrong = subprocess.run([*command, str(model), "--to", "onnx"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 2


def test_the_current_folder_is_never_an_export(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfm_cli", "export", str(model), "--output", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the current folder cannot be written anew" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_generated_code_and_ctranslate2_exclude_each_other(model: Path) -> None:
    done = tfm(model, "--compile", "--batch-size", "1")
    assert done.returncode == 2
    assert "error: --compile: code is generated for models that write all words at once" in done.stderr
