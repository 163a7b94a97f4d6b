"""`tfm translate` in processes of its own, with the committed model that writes words in reverse order."""

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.toys import reverse
from tfm_cli.cli import app
from tfm_cli.cli.render import Screen
from tfm_cli.cli.translate import Warnings
from tfm_cli.errors import TfmError
from tfm_cli.files import written

MODEL = Path(__file__).parents[1] / "golden" / "v1"
COMMAND = [sys.executable, "-m", "tfm_cli", "translate", "--model", str(MODEL), "--device", "cpu"]
EXPECTED = json.loads((MODEL / "expected.json").read_text())
SOURCES, ANSWERS = EXPECTED["sources"][1:], EXPECTED["beam 5"][1:]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
posix = pytest.mark.skipif(os.name != "posix", reason="pipes and signals of POSIX")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("TFM_DEBUG", "FORCE_COLOR", "NO_COLOR")}
    return {**kept, "OMP_NUM_THREADS": "1", "COLUMNS": "300", **more}


def translate(folder: Path, *words: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], cwd=folder, input=stdin, capture_output=True, env=environment(**more))


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Where the tests run in the background, Ctrl-C is ignored, and a child would inherit that.
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)} if os.name == "posix" else {}
    with subprocess.Popen([*COMMAND, *words], cwd=folder, env=environment(), bufsize=0, **pipes, **heed) as process:
        try:
            yield process
        finally:
            process.kill()


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@posix
def test_each_line_is_answered_before_the_next_is_written(tmp_path: Path) -> None:
    with running(tmp_path, "--batch-size", "1") as process:
        for source, answer in zip(["", *SOURCES[:3], ""], ["", *ANSWERS[:3], ""], strict=True):
            process.stdin.write(text([source]))
            assert select.select([process.stdout], [], [], 60)[0], f"no answer to {source!r}"
            assert process.stdout.readline() == text([answer])
        rest, stderr = process.communicate(SOURCES[3].encode(), timeout=60)
        assert (rest, stderr, process.returncode) == (text([ANSWERS[3]]), b"", 0)


def test_stdout_holds_a_translation_a_line_and_nothing_else(tmp_path: Path) -> None:
    lines = ["", SOURCES[0], " ", *SOURCES[1:], "", SOURCES[0]]
    stdin = "\r\n".join(lines).encode()
    done = translate(tmp_path, "--verbose", "--precision", "auto", stdin=stdin, FORCE_COLOR="1", OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    stderr = ESCAPE.sub("", done.stderr.decode())
    assert re.search(r"Model: .*v1; cpu, (float32|bfloat16), 2 threads\.", stderr)
    assert b"\x1b[" in done.stderr
    answers = done.stdout.decode().split("\n")
    assert [bool(answer) for answer in answers[:-1]] == [bool(line.strip()) for line in lines]
    assert answers[-1] == ""
    if "float32" in stderr:
        assert done.stdout == text(["", ANSWERS[0], "", *ANSWERS[1:], "", ANSWERS[0]])


@posix
def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text(SOURCES * 2000))  # more than a pipe holds
    with running(tmp_path, "--input", "in", "--batch-size", "1", "--beam", "1") as process:
        assert process.stdout.readline() == text([ANSWERS[0]])
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""


def test_every_cut_line_is_named_and_its_neighbours_are_unchanged(tmp_path: Path) -> None:
    long = " ".join(["ba be bi"] * 10)
    cut = [1, 3, 4, 6, 8, 9, 10, 12]
    lines = [long if n in cut else SOURCES[n % 12] for n in range(1, 13)]
    lines[10] = ""
    done = translate(tmp_path, "--max-source-tokens", "24", "--max-length-ratio", "1.5", stdin=text(lines))
    assert done.returncode == 0, done.stderr
    answers = done.stdout.decode().splitlines()
    assert len(answers) == 12
    assert [answers[n - 1] for n in (2, 5, 7, 11)] == [ANSWERS[2], ANSWERS[5], ANSWERS[7], ""]
    told = [line for line in done.stderr.decode().splitlines() if "did not end" not in line]
    assert [line.split(":")[:2] for line in told[:5]] == [["warning", f" line {n}"] for n in cut[:5]]
    assert told[5:] == ["warning: also cut to 24 tokens: lines 9 to 10 and 12."]


@pytest.mark.parametrize(
    ("cut", "listed"),
    [([], ""), ([9], "line 9"), ([6, 7, 8, 2000], "lines 6 to 8 and 2,000"), ([6, 8], "lines 6 and 8")],
)
def test_what_warnings_say_at_the_end(capsys: pytest.CaptureFixture[str], cut: list[int], listed: str) -> None:
    warnings = Warnings(Screen(), max_source=1000)
    for line in (1, 2, 3, 4, 5, *cut):
        warnings.cut(line, f"cut {line}")
    for line in range(7):
        warnings.unfinished(f"unfinished {line}")
    shown = [f"cut {line}" for line in range(1, 6)] + [f"unfinished {line}" for line in range(5)]
    assert capsys.readouterr().err.splitlines() == [f"warning: {message}" for message in shown]
    warnings.close()
    end = ["warning: translations that did not end by themselves, all told: 7."]
    assert capsys.readouterr().err.splitlines() == end + [f"warning: also cut to 1,000 tokens: {listed}."] * bool(cut)


def test_invalid_bytes_stop_it_by_line_and_byte_and_leave_the_output_as_it_was(tmp_path: Path) -> None:
    stdin = text(SOURCES[:2]) + b"ba \xff\n"
    (tmp_path / "out").write_text("old\n")
    done = translate(tmp_path, "--batch-size", "1", "--output", "out", stdin=stdin)
    assert done.returncode == 2
    assert done.stdout == b""
    place = f"standard input, line 3: byte {stdin.index(0xFF):,} (0xff)"
    assert done.stderr.decode().startswith(f"error: {place}")
    assert done.stderr.count(b"\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "old\n"}


def test_json_lines_with_invalid_bytes_replaced(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text(SOURCES[:2]) + b"ba \xff\n\n" + SOURCES[2].encode())
    words = ["--errors", "replace", "--format", "jsonl", "--n-best", "3", "--beam", "5"]
    done = translate(tmp_path, "--input", "in", "--output", "new/out", *words)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    found = [json.loads(line) for line in (tmp_path / "new" / "out").read_text(encoding="utf-8").splitlines()]
    assert [each["line"] for each in found] == [1, 2, 3, 4, 5]
    assert [each["source"] for each in found] == [*SOURCES[:2], "ba \ufffd", "", SOURCES[2]]
    assert [len(each["translations"]) for each in found] == [3, 3, 3, 1, 3]
    assert found[4]["translations"][0]["text"] == ANSWERS[2] == reverse(SOURCES[2])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "new", "out"]


def test_scores_of_its_own_output_are_those_of_the_search(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(text(SOURCES))
    done = translate(tmp_path, "--input", "in", "--n-best", "3", "--beam", "5")
    ranking = [line.split(" ||| ") for line in done.stdout.decode().splitlines()]
    assert [int(index) for index, _, _ in ranking] == [n for n in range(len(SOURCES)) for _ in range(3)]
    best = ranking[::3]
    assert [hypothesis for _, hypothesis, _ in best] == ANSWERS
    (tmp_path / "out").write_bytes(text(ANSWERS))
    scored = translate(tmp_path, "--input", "in", "--score", "out", "--batch-size", "5")
    assert scored.returncode == 0, scored.stderr
    numbers = [float(line) for line in scored.stdout.splitlines()]
    assert numbers == pytest.approx([float(score) for _, _, score in best], abs=1e-4)
    assert min(numbers) < 0


@posix
def test_ctrl_c_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old\n")
    with running(tmp_path, "--batch-size", "1", "--output", "out") as process:
        process.stdin.write(text(SOURCES[:1]))
        fresh = tmp_path / ".out.new"
        deadline = time.monotonic() + 60
        while not (fresh.exists() and fresh.read_bytes() == text(ANSWERS[:1])):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert b"Traceback" not in process.stderr.read()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "old\n"}


@pytest.mark.parametrize("words", [["--input", "in"], ["--score", "in", "--input", "other"]])
def test_an_input_is_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in", "other"):
        Path(name).write_text("ba\n")
    assert app.run(["translate", *words, "--output", "../" + tmp_path.name + "/in"]) == 2
    assert "overwrite an input" in capsys.readouterr().err
    assert Path("in").read_text() == "ba\n"


@posix
def test_an_output_keeps_its_link_and_its_rights_and_a_device_stays_one(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old\n")
    kept.chmod(0o640)
    link.symlink_to("kept")
    with written(str(link)) as stream:
        stream.write("new\n")
        assert kept.read_text() == "old\n"
    assert link.is_symlink()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("new\n", 0o640)
    with written(os.devnull) as stream:
        stream.write("new\n")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(TfmError, match="cannot be written"), written(str(tmp_path)):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "link"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--score", "in", "--beam", "3"], "--beam: --score searches nothing"),
        (["--score", "in", "--sample"], "--sample: --score searches nothing"),
        (["--score", "short"], "in has 2 lines and short has 1"),
        (["--target-prefix", "short"], "in has 2 lines and short has 1"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("ba be\nbi\n")
    Path("short").write_text("ba\n")
    assert app.run(["translate", "--model", str(MODEL), "--input", "in", "--output", "out", *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("is_typed", "table", "words", "refused"),
    [
        (True, "workers = 2", [], False),
        (True, "workers = 2\nbatch-size = 1", [], False),
        (True, "workers = 2", ["--workers", "2"], True),
        (True, "", ["--workers", "2"], True),
        (True, "", ["--workers", "1"], False),
        (False, "workers = 2", ["--batch-size", "1"], False),
        (False, "workers = 2\nbatch-size = 1", [], True),
        (False, "batch-size = 1", ["--workers", "2"], True),
    ],
)
def test_lines_that_come_one_at_a_time_outdo_the_files_workers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_typed: bool,
    table: str,
    words: list[str],
    refused: bool,
) -> None:
    """Where a person types them, or the command line asks for batches of one; workers typed with them are refused."""

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    Path("tfm.toml").write_text(f"[translate]\n{table}\n")
    Path("in").write_bytes(text(SOURCES[:2]))
    if is_typed:
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(text(SOURCES[:2]))))
    else:
        words = [*words, "--input", "in"]
    code = app.run(["translate", "--model", str(MODEL), "--device", "cpu", "--threads", "2", *words])
    captured = capsys.readouterr()
    assert ("--workers: lines come one at a time" in captured.err) is refused
    if refused:
        assert code == 2
    else:
        assert (code, captured.out.encode()) == (0, text(ANSWERS[:2])), captured.err


def test_a_translation_too_long_for_the_fast_engine_is_scored_by_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("ba be\nbi\n")
    Path("long").write_text("be ba\n" + "ba " * 2500 + "\n")
    words = ["--model", str(MODEL), "--device", "cpu", "--input", "in", "--score", "long", "--output", "out"]
    assert app.run(["translate", *words]) == 0
    assert len(Path("out").read_text().splitlines()) == 2
    assert "Engine: torch, since CTranslate2 is given 2,048 positions" in capsys.readouterr().err
