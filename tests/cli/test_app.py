import os
import subprocess
import sys

import pytest

from tfm_cli import __version__
from tfm_cli.cli import app
from tfm_cli.cli.command import Command
from tfm_cli.cli.options import DemoOptions
from tfm_cli.errors import Interrupted, TfmError

HEAVY = {"torch", "datasets", "tokenizers", "pandas", "sacrebleu", "numpy"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("TFM_DEBUG", raising=False)


@pytest.fixture
def doing(monkeypatch):
    """Make the only command one that does what the test says."""

    def install(action):
        command = Command("act", "Act.", "", (DemoOptions,), f"{__name__}:_act")
        monkeypatch.setattr(app, "COMMANDS", (command,))
        monkeypatch.setattr(sys.modules[__name__], "_act", action, raising=False)

    return install


def fail(error):
    def action(settings, screen):
        raise error

    return action


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from tfm_cli.cli.app import run; code = run(['--help']);"
        f"print(code, sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "0 []\n"
    assert all(command.name in done.stdout for command in app.COMMANDS)


@pytest.mark.parametrize("command", app.COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_help_page_within_the_width(command, capsys):
    assert app.run([command.name, "--help"]) == 0
    shown = capsys.readouterr()
    assert command.summary in shown.out
    assert f"Usage: tfm {command.name}" in shown.out
    assert "--verbose" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100
    assert shown.err == ""


@pytest.mark.parametrize("command", app.COMMANDS, ids=lambda command: command.name)
def test_every_command_can_be_imported_and_its_examples_parse(command):
    import importlib
    import shlex

    module, function = command.run.split(":")
    assert callable(getattr(importlib.import_module(module), function))
    for example in command.examples:
        line = example.split("|")[-1].split("<")[0]
        words = shlex.split(line)
        assert words[:2] == ["tfm", command.name]
        assert app.parse(words[1:]).command is command


def test_no_arguments_show_the_help(capsys):
    assert app.run([]) == 0
    assert "Usage: tfm" in capsys.readouterr().out


def test_the_version(capsys):
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"tfm {__version__}\n"


def test_python_dash_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "tfm_cli", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Usage: tfm [OPTIONS]" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "error: no such command 'trian'. Did you mean 'train'?"),
        (["zzz"], "error: no such command 'zzz'. See `tfm --help`."),
        (["--quite"], "error: tfm has no option --quite. See `tfm --help`."),
        (["train", "--outptu", "x"], "error: tfm train has no option --outptu. Did you mean --output?"),
        (["train", "--heads"], "error: --heads: a value is needed."),
        (["train", "--heads", "x"], "error: --heads: a whole number is needed, not 'x'."),
        (
            ["train", "--preset", "tiy"],
            "error: --preset: 'tiy' is not one of auto, tiny, mini, small, base, big. Did you mean tiny?",
        ),
        (["train", "--dropout", "-1"], "error: --dropout: -1.0 is below the smallest value allowed, 0."),
        (["train", "--config", "gone.toml"], "error: gone.toml: cannot read it: No such file or directory."),
        (
            ["translate", "in.txt"],
            "error: got unexpected extra argument(s) (in.txt); a value stands behind its option, as in --input FILE. "
            "See `tfm translate --help`.",
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_code_2(words, message, capsys):
    assert app.run(words) == 2
    shown = capsys.readouterr()
    assert shown.err == f"{message}\n"
    assert shown.out == ""


def test_a_users_mistake_is_one_line_however_long(doing, capsys):
    doing(fail(TfmError("a long story " * 20, where="[file].txt", fix="Mend it.")))
    assert app.run(["act"]) == 2
    shown = capsys.readouterr().err
    assert shown == f"error: [file].txt: {'a long story ' * 20}. Mend it.\n"


def test_a_failure_of_ours_asks_for_a_report_and_shows_its_trace_when_asked(doing, capsys, monkeypatch):
    doing(fail(ValueError("odd")))
    assert app.run(["act"]) == 1
    assert capsys.readouterr().err == (
        "error: tfm itself failed (ValueError: odd). Please report this. Run it again with --verbose to see where.\n"
    )
    assert app.run(["act", "--verbose"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    monkeypatch.setenv("TFM_DEBUG", "1")
    assert app.run(["act"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Interrupted("Saved step 12."), 130, "interrupted: Saved step 12.\n"),
        (KeyboardInterrupt(), 130, "interrupted: stopped by Ctrl-C.\n"),
        (OSError(28, "No space left on device", "run/x"), 1, "error: run/x: No space left on device.\n"),
        (MemoryError(), 1, "error: out of memory. A smaller --batch-tokens, or a smaller network, takes less.\n"),
    ],
)
def test_other_endings(doing, capsys, error, code, message):
    doing(fail(error))
    assert app.run(["act"]) == code
    assert capsys.readouterr().err == message


def test_a_closed_pipe_ends_quietly():
    code = (
        "import sys; from tfm_cli.cli import app; from tfm_cli.cli.command import Command;"
        "sys.modules['talk'] = type(sys)('talk');"
        "sys.modules['talk'].run = lambda settings, screen: [screen.result('line') for _ in range(10**6)];"
        "app.COMMANDS = (Command('talk', 'Talk.', '', (), 'talk:run'),); sys.argv[1:] = ['talk']; app.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141


def test_a_mistake_in_another_commands_table_is_found(tmp_path, capsys):
    (tmp_path / "tfm.toml").write_text("[train]\nhaeds = 3\n")
    assert app.run(["info"]) == 2
    assert capsys.readouterr().err == "error: tfm.toml: [train]: unknown key 'haeds'. Did you mean 'heads'?\n"
