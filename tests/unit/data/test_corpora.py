import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tfm_cli.data.corpora import FilePair, open_corpora
from tfm_cli.data.options import PreprocessOptions
from tfm_cli.errors import TfmError

PAIRS = [("das ist gut", "this is good"), ('"NA" und', 'null, "x"'), ("ja", "yes")]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))


def _table(path: Path, pairs: list[tuple[str, str]] = PAIRS) -> Path:
    """Write ``pairs`` in the format that the file's name says."""
    from datasets import Dataset

    nested = [{"translation": {"de": source, "en": target}} for source, target in pairs]
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        Dataset.from_list(nested).to_parquet(path)
    elif name.endswith((".jsonl", ".ndjson")):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in nested)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    elif name.endswith(".json"):
        path.write_text(json.dumps(nested))
    elif name.endswith(".csv"):
        Dataset.from_dict({"de": [s for s, _ in pairs], "en": [t for _, t in pairs]}).to_csv(path)
    elif name.endswith(".tsv"):
        path.write_text("de\ten\n" + "".join(f"{source}\t{target}\n" for source, target in pairs))
    elif name.endswith(".arrow"):
        saved = path.with_suffix(".saved")
        Dataset.from_list(nested).save_to_disk(saved)
        next(saved.glob("*.arrow")).rename(path)
    return path


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.jsonl", "a.ndjson", "a.jsonl.gz", "a.json", "a.arrow", "a.csv", "a.tsv"]
)
def test_local_tables(tmp_path: Path, name: str) -> None:
    columns = {"source_column": "de", "target_column": "en"} if name[-3:] in ("csv", "tsv") else {}
    path = _table(tmp_path / name)
    options = PreprocessOptions(dataset=str(path), source_lang="de", target_lang="en", **columns)
    corpus = open_corpora(options)["train"]
    assert list(corpus.pairs()) == list(corpus.pairs()) == PAIRS
    before = corpus.fingerprint()
    assert open_corpora(options)["train"].fingerprint() == before
    _table(path, PAIRS[:2])
    assert open_corpora(options)["train"].fingerprint() != before


def test_a_language_may_be_on_either_side(tmp_path: Path) -> None:
    path = str(_table(tmp_path / "a.parquet"))
    corpus = open_corpora(PreprocessOptions(dataset=path, source_lang="en", target_lang="de"))["train"]
    assert next(corpus.pairs()) == PAIRS[0][::-1]
    assert corpus.languages == ("en", "de")


def test_folders_with_splits(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("train", "validation", "test"):
        _table(folder / f"{name}.jsonl", PAIRS[: 1 + len(name) % 3])
    corpora = open_corpora(PreprocessOptions(dataset=str(folder), source_lang="de", target_lang="en"))
    assert {role: len(list(corpus.pairs())) for role, corpus in corpora.items()} == {"train": 3, "valid": 2, "test": 2}

    rows = Dataset.from_dict({"x": ["a", None, "c"], "y": ["1", "2", "3"]})
    DatasetDict({"train": rows, "dev": rows.select([0])}).save_to_disk(tmp_path / "saved")
    options = PreprocessOptions(dataset=str(tmp_path / "saved"), source_column="x", target_column="y")
    corpora = open_corpora(options)
    assert {role: list(corpus.pairs()) for role, corpus in corpora.items()} == {
        "train": [("a", "1"), ("", "2"), ("c", "3")],
        "valid": [("a", "1")],
    }
    assert corpora["train"].size() == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "--source-lang: which language.* holds de, en"),
        ({"source_lang": "de"}, "--target-lang: which language"),
        ({"source_lang": "de", "target_lang": "fr"}, "holds no fr.* holds de, en"),
        ({"source_column": "text", "target_column": "x"}, "no column 'text'.* has translation"),
    ],
)
def test_mistakes_name_what_there_is(tmp_path: Path, change: dict[str, str], message: str) -> None:
    path = str(_table(tmp_path / "a.jsonl"))
    with pytest.raises(TfmError, match=message):
        open_corpora(PreprocessOptions(dataset=path, **change))


def test_missing_and_broken_tables(tmp_path: Path) -> None:
    _table(tmp_path / "train.jsonl")
    with pytest.raises(TfmError, match=r"Did you mean train\.jsonl"):
        open_corpora(PreprocessOptions(dataset=str(tmp_path / "trian.jsonl")))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TfmError, match=r"broken\.parquet"):
        open_corpora(PreprocessOptions(dataset=str(tmp_path / "broken.parquet"), source_lang="de", target_lang="en"))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("train.de", "train.en", ("de", "en")),
        ("train.zh.gz", "train.en.gz", ("zh", "en")),
        ("a.zh-Hans", "a.pt_BR.zst", ("zh-Hans", "pt_BR")),
        ("source.txt", "target.txt", (None, None)),
        ("train.src", "train.tgt", (None, None)),
        ("a.en", "b.en", (None, None)),
        ("de", ".en", (None, None)),
    ],
)
def test_languages_from_file_names(tmp_path: Path, source: str, target: str, expected: tuple) -> None:
    for name in (source, target):
        (tmp_path / name).touch()
    assert FilePair(str(tmp_path / source), str(tmp_path / target)).languages == expected


CSV = b'de,en\r\n"a\nb",x\ry\r\nlone\rcr,"q, z"\r\nNA,null\r\n'
TSV = b'\xef\xbb\xbfde\ten\na\rb\tx\ry\n"c\td\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", CSV, [("a\nb", "x\ry"), ("lone\rcr", "q, z"), ("NA", "null")]),
        ("a.tsv", TSV, [("a\rb", "x\ry"), ('"c', "d")]),
        ("folder/train.csv", CSV, [("a\nb", "x\ry"), ("lone\rcr", "q, z"), ("NA", "null")]),
    ],
)
def test_only_newlines_end_a_row(tmp_path: Path, name: str, content: bytes, expected: list[tuple[str, str]]) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    table = tmp_path / Path(name).parts[0]
    corpora = open_corpora(PreprocessOptions(dataset=str(table), source_column="de", target_column="en"))
    assert list(corpora["train"].pairs()) == expected


def test_files_for_validation_stand_beside_a_table(tmp_path: Path) -> None:
    (tmp_path / "valid.de").write_text("neu\n")
    (tmp_path / "valid.en").write_text("new\n")
    table = PreprocessOptions(dataset=str(_table(tmp_path / "a.jsonl")), source_lang="de", target_lang="en")
    valid = str(tmp_path / "valid.de"), str(tmp_path / "valid.en")
    corpora = open_corpora(replace(table, valid_source=valid[0], valid_target=valid[1]))
    assert {role: list(corpus.pairs()) for role, corpus in corpora.items()} == {
        "train": PAIRS,
        "valid": [("neu", "new")],
    }
    with pytest.raises(TfmError, match="--test-source needs --test-target"):
        open_corpora(replace(table, test_source=valid[0]))
    with pytest.raises(TfmError, match="training text in files and in a table"):
        open_corpora(replace(table, source=valid[0], target=valid[1]))
