"""The examples place their files and type the five commands."""

import gzip
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tfm_cli.cli.commands import COMMANDS
from tfm_cli.config import Project
from tfm_cli.keys import keys

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {
    "multi30k": [f"{name}.{code}.gz" for name in ("train", "val", "test_2016_flickr") for code in ("de", "en")],
    "tatoeba-zh-en": [f"{name}.{code}.gz" for name in ("train", "dev", "test") for code in ("zh", "en")],
}


@pytest.mark.parametrize("name", FILES)
def test_an_example_takes_a_folder_named_from_where_one_is(name: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name, ignore=shutil.ignore_patterns("work"))
    (tmp_path / "setup-venv.sh").write_text('cd "$(dirname "$0")"\necho setup >> log\n')
    tfm = tmp_path / ".venv" / "bin" / "tfm"
    tfm.parent.mkdir(parents=True)
    tfm.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/log"\n')
    tfm.chmod(0o755)
    (tmp_path / "here" / "corpus").mkdir(parents=True)
    for file in FILES[name]:
        (tmp_path / "here" / "corpus" / file).write_bytes(gzip.compress(file.encode()))
    script = str(tmp_path / "examples" / name / "run.sh")
    done = subprocess.run(["sh", script, "corpus"], cwd=tmp_path / "here", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text().split() == [
        "setup",
        *("train-tokenizer", "preprocess", "train", "eval", "translate"),
    ]
    placed = tmp_path / "examples" / name / "work"
    assert {path.name: gzip.decompress(path.read_bytes()).decode() for path in placed.glob("*.gz")} == {
        file: file for file in FILES[name]
    }


CHAINS = {
    "multi30k-en-de": "train-tokenizer preprocess preprocess train translate translate preprocess train train train eval",
    "multi30k-ctc": "train preprocess train translate translate distill train eval eval bench",
    "tatoeba-de-en": "train-tokenizer preprocess train distill train eval eval bench",
}


@pytest.mark.parametrize("name", CHAINS)
def test_an_example_of_several_models_goes_from_the_first_to_the_last(name: str, tmp_path: Path) -> None:
    """Its options are those of the commands, and each reads what an earlier one writes."""
    shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name, ignore=shutil.ignore_patterns("work"))
    (tmp_path / "examples" / "multi30k" / "work").mkdir(parents=True)
    shutil.copy(EXAMPLES / "multi30k" / "tfm.toml", tmp_path / "examples" / "multi30k")
    for script in ("run.sh", "place.sh"):
        (tmp_path / "examples" / "multi30k" / script).write_text('echo "$@" > first\n')
    (tmp_path / "setup-venv.sh").touch()
    tfm = tmp_path / ".venv" / "bin" / "tfm"
    tfm.parent.mkdir(parents=True)
    # What `tfm translate` writes, whose name comes last, other programs read.
    writing = 'for word; do :; done; [ "$1" != translate ] || { mkdir -p work; touch "$word"; }'
    tfm.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/log"\n{writing}\n')
    tfm.chmod(0o755)
    (tfm.parent / "python").symlink_to(sys.executable)
    (tmp_path / "corpus").mkdir()
    for folder in (tmp_path / "examples" / "multi30k" / "work", tmp_path / "corpus"):
        for role in ("train", "dev", "test", "val", "test_2016_flickr"):
            for language in ("de", "en"):
                (folder / f"{role}.{language}.gz").write_bytes(gzip.compress("Ä\n".encode()))
    script = str(tmp_path / "examples" / name / "run.sh")
    done = subprocess.run(["sh", script, "corpus"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    typed = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [words[0] for words in typed] == CHAINS[name].split()
    for words in typed:
        command = next(command for command in COMMANDS if command.name == words[0])
        known = {f"--{key.name}" for key in keys(command.sections).values()} | {"--config"}
        assert {word for word in words if word.startswith("--")} <= known
    assert Project.load(EXAMPLES / name / "tfm.toml").check({c.name: c.sections for c in COMMANDS})


def test_an_english_sentence_is_in_one_set_only(tmp_path: Path) -> None:
    lines = [f"Sentence {i // 3}.\t第{i}句。\tCC-BY 2.0" for i in range(3000)]
    with zipfile.ZipFile(tmp_path / "cmn-eng.zip", "w") as archive:
        archive.writestr("cmn.txt", "".join(f"{line}\n" for line in lines))
    split = str(EXAMPLES / "tatoeba-zh-en" / "split.py")
    subprocess.run([sys.executable, split, str(tmp_path / "cmn-eng.zip"), str(tmp_path)], check=True)
    sets = {
        role: [
            gzip.decompress((tmp_path / f"{role}.{code}.gz").read_bytes()).decode().splitlines()
            for code in ("zh", "en")
        ]
        for role in ("train", "dev", "test")
    }
    made = [(english, chinese) for sides in sets.values() for chinese, english in zip(*sides, strict=True)]
    assert sorted(made) == sorted(tuple(line.split("\t")[:2]) for line in lines)
    english = [set(sides[1]) for sides in sets.values()]
    assert sum(map(len, english)) == len(set.union(*english)) == 1000
    assert all(15 <= len(sentences) <= 60 for sentences in english[1:])
