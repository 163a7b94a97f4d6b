import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfm_cli.data import cleaning
from tfm_cli.data.dataset import DataFolder, preprocess
from tfm_cli.data.options import PreprocessOptions
from tfm_cli.errors import TfmError
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.special import END

GERMAN = [f"der Hund Nummer {i} schläft" for i in range(100)]
ENGLISH = [f"dog number {i} is asleep" for i in range(100)]


@pytest.fixture
def options(tmp_path: Path) -> PreprocessOptions:
    _write(tmp_path / "train.de", GERMAN)
    _write(tmp_path / "train.en", ENGLISH)
    Tokenizers(Tokenizer.train(GERMAN + ENGLISH, TokenizerOptions(vocab_size=400))).save(tmp_path / "tokenizer")
    return PreprocessOptions(
        source=str(tmp_path / "train.de"),
        target=str(tmp_path / "train.en"),
        tokenizer=str(tmp_path / "tokenizer"),
        output=str(tmp_path / "data"),
        valid_size=0,
    )


def _write(path: Path, lines: list[str]) -> str:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def _content(folder: str | Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def _decoded(options: PreprocessOptions) -> list[tuple[str, str]]:
    data = DataFolder.load(options.output)
    assert data.train is not None
    pairs = data.train.pairs(range(len(data.train)))
    return [(data.tokenizers.source.decode(source), data.tokenizers.target.decode(target)) for source, target in pairs]


def test_pairs_come_back_as_written_with_end(options: PreprocessOptions) -> None:
    report = preprocess(options)
    assert (report.read, report.kept, report.changed) == (100, 100, True)
    assert _decoded(options) == list(zip(GERMAN, ENGLISH, strict=True))
    data = DataFolder.load(options.output)
    assert (data.source_language, data.target_language, data.valid, data.test) == ("de", "en", None, None)
    train = data.train
    assert train is not None and len(train) == 100
    assert train.lengths.dtype == np.int32 and train.lengths.shape == (100, 2)
    picked = train.pairs([99, 0, 99])
    assert picked[0][0].tolist() == picked[2][0].tolist() == [*data.tokenizers.source.encode(GERMAN[99]), END]
    assert [[len(source), len(target)] for source, target in picked] == train.lengths[[99, 0, 99]].tolist()
    with pytest.raises(IndexError):
        train.pairs([100])
    with pytest.raises(ValueError, match="not kept"):
        train.texts([0])


def test_several_chunks(options: PreprocessOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm_cli.data.build.CHUNK", 7)
    calls: list[tuple[str, int, int | None]] = []
    preprocess(options, lambda *call: calls.append(call))
    assert _decoded(options) == list(zip(GERMAN, ENGLISH, strict=True))
    assert calls[0] == ("train", 7, 100) and calls[-1] == ("train", 100, 100)


def test_every_dropped_pair_has_a_reason(options: PreprocessOptions, tmp_path: Path) -> None:
    source = ["gut", "", "  ", "lang " * 60, "kurz", "gut", "gut", ""]
    target = ["good", "x", "y", "long " * 60, "a b c d e f g " * 5, "good", "fine", ""]
    _write(tmp_path / "train.de", source)
    _write(tmp_path / "train.en", target)
    report = preprocess(replace(options, max_length=100, max_ratio=3.0, deduplicate=True))
    assert report.dropped == {cleaning.EMPTY: 3, cleaning.LONG: 1, cleaning.RATIO: 1, cleaning.REPEATED: 1}
    assert report.read == report.kept + sum(report.dropped.values()) == 8
    assert _decoded(options) == [("gut", "good"), ("gut", "fine")]


def test_separators_inside_a_line_stay_inside(options: PreprocessOptions, tmp_path: Path) -> None:
    _write(tmp_path / "train.de", ["a\u2028b", "c\x85d\x1ce\x0bf\x0cg", "h"])
    _write(tmp_path / "train.en", ["1", "2", "3"])
    preprocess(options)
    assert _decoded(options) == [("a\u2028b", "1"), ("c\x85d\x1ce\x0bf\x0cg", "2"), ("h", "3")]


def test_windows_files_give_the_same_ids(options: PreprocessOptions, tmp_path: Path) -> None:
    preprocess(options)
    unix = (tmp_path / "data" / "train.arrow").read_bytes()
    for name, lines in (("train.de", GERMAN), ("train.en", ENGLISH)):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())
    assert preprocess(options).changed
    assert (tmp_path / "data" / "train.arrow").read_bytes() == unix


def test_a_second_run_does_nothing_until_something_changes(options: PreprocessOptions, tmp_path: Path) -> None:
    first = preprocess(options)
    before = _content(options.output)
    again = preprocess(options)
    assert not again.changed and _content(options.output) == before
    assert (again.read, again.dropped, again.splits) == (first.read, first.dropped, first.splits)
    fingerprints = {DataFolder.load(options.output).fingerprint}
    for change in ({"max_length": 100}, {"source_lang": "nl"}, {"valid_size": 5}, {"deduplicate": True}):
        assert preprocess(replace(options, **change)).changed
        fingerprints.add(DataFolder.load(options.output).fingerprint)
    _write(tmp_path / "train.de", [*GERMAN[:-1], "die Katze"])
    assert preprocess(options).changed
    fingerprints.add(DataFolder.load(options.output).fingerprint)
    Tokenizers(Tokenizer.train(ENGLISH)).save(tmp_path / "tokenizer")
    assert preprocess(options).changed
    fingerprints.add(DataFolder.load(options.output).fingerprint)
    assert len(fingerprints) == 7
    (tmp_path / "data" / "train.arrow").unlink()
    assert preprocess(options).changed
    assert preprocess(replace(options, overwrite=True)).changed


def test_the_fingerprint_is_of_the_content_and_not_of_names(options: PreprocessOptions, tmp_path: Path) -> None:
    preprocess(options)
    (tmp_path / "train.de").rename(tmp_path / "moved.de")
    assert not preprocess(replace(options, source=str(tmp_path / "moved.de"))).changed


@pytest.mark.parametrize("fault", ["uneven", "invalid", "nothing left", "interrupt"])
def test_a_failure_leaves_everything_as_it_was(options: PreprocessOptions, tmp_path: Path, fault: str) -> None:
    preprocess(options)
    if fault == "uneven":
        _write(tmp_path / "train.en", ENGLISH[:60])
    elif fault == "invalid":
        (tmp_path / "train.en").write_bytes(b"x\n" * 99 + b"\xff\n")
    elif fault == "nothing left":
        _write(tmp_path / "train.en", [""] * 100)
    else:
        _write(tmp_path / "train.en", ENGLISH[::-1])
    before = _content(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt if fault == "interrupt" else TfmError):
        preprocess(options, stop if fault == "interrupt" else None)
    assert _content(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "tokenizer", "train.de", "train.en"]


def test_uneven_files_name_both_counts_and_write_nothing(options: PreprocessOptions, tmp_path: Path) -> None:
    _write(tmp_path / "train.en", ENGLISH[:60])
    with pytest.raises(TfmError, match=r"train.de has 100 lines and .*train.en has 60"):
        preprocess(options)
    assert not (tmp_path / "data").exists()


def test_nothing_left_says_why(options: PreprocessOptions, tmp_path: Path) -> None:
    _write(tmp_path / "train.en", [""] * 100)
    with pytest.raises(TfmError, match=r"none of the 100 pairs is left \(100 one side is empty\)"):
        preprocess(options)
    for name in ("train.de", "train.en"):
        _write(tmp_path / name, [])
    with pytest.raises(TfmError, match="no text"):
        preprocess(options)


def test_invalid_utf8_stops_or_is_replaced(options: PreprocessOptions, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(b"x\n" * 99 + b"\xff\0\n")
    with pytest.raises(TfmError, match=r"train.en, line 100: byte 198"):
        preprocess(options)
    assert preprocess(replace(options, errors="replace")).kept == 100
    assert _decoded(options)[99] == (GERMAN[99], "\ufffd\0")


def test_validation_and_test_pairs_are_all_kept_with_their_text(options: PreprocessOptions, tmp_path: Path) -> None:
    sources, targets = ["neu", "", "sehr " * 400, GERMAN[3], GERMAN[3]], ["new", "x", "very", "a", "b"]
    report = preprocess(
        replace(
            options,
            valid_source=_write(tmp_path / "v.de", sources),
            valid_target=_write(tmp_path / "v.en", targets),
            test_source=_write(tmp_path / "t.de", sources[:1]),
            test_target=_write(tmp_path / "t.en", targets[:1]),
            valid_size=50,
        )
    )
    data = DataFolder.load(options.output)
    assert data.valid is not None and data.test is not None
    assert data.valid.texts(range(5)) == data.valid.texts() == list(zip(sources, targets, strict=True))
    assert data.valid.texts([4, 0]) == [(GERMAN[3], "b"), ("neu", "new")]
    assert data.valid.pairs([1])[0][0].tolist() == [END]
    assert len(data.test) == 1 and report.held_out == 0
    assert (report.splits["valid"].empty, report.splits["valid"].leaked, report.splits["test"].leaked) == (1, 2, 0)
    assert (report.splits["valid"].long, report.splits["test"].long) == (1, 0)
    assert list(report.splits) == ["train", "valid", "test"]


def test_validation_is_held_out_when_none_is_given(options: PreprocessOptions) -> None:
    report = preprocess(replace(options, valid_size=None))
    data = DataFolder.load(options.output)
    assert data.valid is not None and (len(data.valid), report.held_out, report.kept) == (2, 2, 100)
    assert sorted(_decoded(options) + data.valid.texts()) == sorted(zip(GERMAN, ENGLISH, strict=True))
    with pytest.raises(TfmError, match="leaves none to train on"):
        preprocess(replace(options, valid_size=100))


def test_a_folder_with_other_files_is_not_replaced(options: PreprocessOptions, tmp_path: Path) -> None:
    output = tmp_path / "data"
    output.mkdir()
    preprocess(options)  # an empty folder is fine
    (output / "notes.txt").write_text("mine")
    with pytest.raises(TfmError, match=r"notes\.txt"):
        preprocess(replace(options, overwrite=True))
    assert (output / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.arrow").write_text("mine")
    with pytest.raises(TfmError, match=r"train\.arrow"):
        preprocess(replace(options, output=str(other)))
    with pytest.raises(TfmError, match="is a file"):
        preprocess(replace(options, output=options.source or ""))


def test_loading_what_is_not_there_or_newer_or_damaged(options: PreprocessOptions, tmp_path: Path) -> None:
    with pytest.raises(TfmError, match="no such folder"):
        DataFolder.load(tmp_path / "nowhere")
    with pytest.raises(TfmError, match="not written by tfm preprocess"):
        DataFolder.load(tmp_path)
    preprocess(options)
    arrow = tmp_path / "data" / "train.arrow"
    arrow.write_bytes(b"garbage")
    with pytest.raises(TfmError, match="damaged") as caught:
        _ = DataFolder.load(options.output).train
    assert caught.value.where == str(arrow)
    arrow.unlink()
    with pytest.raises(TfmError, match="missing"):
        DataFolder.load(options.output)
    about = tmp_path / "data" / "data.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 99}))
    with pytest.raises(TfmError, match="format 99"):
        DataFolder.load(options.output)


def test_another_tokenizer_of_the_same_size_is_noticed(options: PreprocessOptions) -> None:
    other = Tokenizer.train([line.upper() for line in GERMAN + ENGLISH], TokenizerOptions(vocab_size=310))
    same = Tokenizer.train(GERMAN + ENGLISH, TokenizerOptions(vocab_size=other.vocab_size))
    Tokenizers(same).save(options.tokenizer)
    preprocess(options)
    Tokenizers(other).save(options.output)
    data = DataFolder.load(options.output)
    with pytest.raises(TfmError, match="not the one that these pairs were encoded with") as caught:
        _ = data.tokenizers
    assert other.vocab_size == same.vocab_size
    assert caught.value.where == options.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": None}, "--source needs --target"),
        ({"source": None, "target": None}, "nothing to train on"),
        ({"valid_target": "x"}, "--valid-target needs --valid-source"),
        ({"source": "-"}, "a pipe cannot be read twice"),
        ({"source": "nowhere/train.de"}, "no such file"),
        ({"tokenizer": "nowhere"}, "train-tokenizer"),
        ({"max_length": 1}, "--max-length"),
    ],
)
def test_mistakes_are_named(options: PreprocessOptions, change: dict[str, object], message: str) -> None:
    with pytest.raises(TfmError, match=message):
        preprocess(replace(options, **change))  # type: ignore[arg-type]
    assert not Path(options.output).exists()


MEASURE = """
import resource, sys
from tfm_cli.data.dataset import preprocess
from tfm_cli.data.options import PreprocessOptions
source, target, tokenizer, output = sys.argv[1:]
preprocess(PreprocessOptions(source=source, target=target, tokenizer=tokenizer, output=output))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_corpus(options: PreprocessOptions, tmp_path: Path) -> None:
    peaks = []
    for count in (10_000, 100_000):
        source = _write(tmp_path / f"{count}.de", [f"{GERMAN[i % 100]} {i}" for i in range(count)])
        target = _write(tmp_path / f"{count}.en", [f"{ENGLISH[i % 100]} {i}" for i in range(count)])
        command = [sys.executable, "-c", MEASURE, source, target, options.tokenizer, str(tmp_path / f"data{count}")]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] < 1.15 * peaks[0]
