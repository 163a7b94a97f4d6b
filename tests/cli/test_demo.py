import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from tfm_cli.cli import app
from tfm_cli.cli.demo import write_corpus
from tfm_cli.cli.translate_options import TranslateOptions
from tfm_cli.config import Project


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def test_the_folder_holds_matching_text_and_a_project_file_that_loads():
    count = write_corpus(Path("demo"))
    sizes = [len(lines(f"demo/{name}.zh")) for name in ("train", "valid", "test")]
    assert [len(lines(f"demo/{name}.en")) for name in ("train", "valid", "test")] == sizes
    assert sum(sizes) == count
    assert lines("demo/showcase.zh")[0] == "我是谁"
    assert not set(lines("demo/showcase.zh")) & set(lines("demo/train.zh"))
    project = Project.load("demo/tfm.toml").check({each.name: each.sections for each in app.COMMANDS})
    for key in ("source", "target", "valid-source", "valid-target", "test-source", "test-target"):
        assert Path(project.tables["preprocess"][key]).is_file()


def test_a_folder_of_the_users_is_left_alone(capsys):
    Path("tfm-demo").mkdir()
    Path("tfm-demo/train.zh").write_text("mine", encoding="utf-8")
    assert app.run(["demo"]) == 2
    assert app.run(["demo", "--overwrite"]) == 2
    Path("tfm-demo/tfm.toml").write_text("# My own project.\n", encoding="utf-8")
    assert app.run(["demo", "--overwrite"]) == 2
    message = "error: tfm-demo: there is something else, which no demo wrote. Choose another --output.\n"
    assert capsys.readouterr().err == 3 * message
    assert Path("tfm-demo/train.zh").read_text(encoding="utf-8") == "mine"
    assert Path("tfm-demo/tfm.toml").read_text(encoding="utf-8") == "# My own project.\n"
    assert len(list(Path("tfm-demo").iterdir())) == 2


def test_a_demo_is_run_again_only_when_asked(capsys):
    write_corpus(Path("tfm-demo"))
    assert app.run(["demo"]) == 2
    assert capsys.readouterr().err == (
        "error: tfm-demo: it is already there. Choose another --output, or use --overwrite.\n"
    )


@pytest.mark.parametrize("again", [False, True])
def test_every_command_is_shown_and_run_in_the_folder(again, capsys, monkeypatch):
    ran = []

    def act(settings, screen):
        ran.append((settings.command, Path.cwd().name, settings.as_dict().get("overwrite", False)))
        if settings.command == "translate":
            options = settings[TranslateOptions]
            Path(options.output).write_text("Who am I\n" * len(lines(options.input)), encoding="utf-8")

    monkeypatch.setitem(sys.modules, "acting", types.SimpleNamespace(run=act))
    commands = (each if each.name == "demo" else replace(each, run="acting:run") for each in app.COMMANDS)
    monkeypatch.setattr(app, "COMMANDS", tuple(commands))
    here = Path.cwd()
    if again:
        write_corpus(Path("play"))
    assert app.run(["demo", "--output", "play", *(["--overwrite"] if again else [])]) == 0
    assert Path.cwd() == here
    assert [name for name, *_ in ran] == ["train-tokenizer", "preprocess", "train", "eval", "translate"]
    assert {folder for _, folder, _ in ran} == {"play"}
    overwriting = [overwrite for name, _, overwrite in ran if name in ("train-tokenizer", "train")]
    assert overwriting == [again, again]
    shown = capsys.readouterr().err
    prompts = [line for line in shown.splitlines() if line.startswith("$ ")]
    assert [prompt.split()[:3] for prompt in prompts] == [["$", "tfm", name] for name, *_ in ran]
    assert any(line.split() == ["我是谁", "Who", "am", "I"] for line in shown.splitlines())
