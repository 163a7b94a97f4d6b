"""Distillation: what is written is what the teacher says, in shards that a second start goes on from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toys import TINY, WORDS, make_data, reverse, sentences
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data.dataset import DataFolder
from tfm_cli.distill.monolingual import Monolingual
from tfm_cli.distill.plan import Plan, is_distilled
from tfm_cli.distill.teacher import distill, drawn
from tfm_cli.engines.pytorch import TorchEngine
from tfm_cli.model import build_family
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.hypothesis import Hypothesis
from tfm_cli.transformer.special import COUNT
from tfm_cli.translator import TextHypothesis, Translation, Translator

PLAN = Plan("teacher", DecodeOptions(beam=1))


class Teacher(Translator):
    """Says each source twice, or what ``say`` makes of it; is interrupted when it has read ``breaks_at``."""

    def __init__(self, data: DataFolder, say=lambda line: f"{line} {line}", breaks_at: int = 10**9) -> None:
        self.say, self.breaks_at, self.read = say, breaks_at, []

    def stream(self, lines, options=None, batching=None, prefixes=None, warn=None, on_cut=None, with_scores=True):
        for number, line in enumerate(lines, 1):
            if len(self.read) >= self.breaks_at:
                raise KeyboardInterrupt
            self.read.append(line)
            text = self.say(line)
            finished = not text.endswith("...")
            yield Translation(number, line, [TextHypothesis(text, 0.0, 0.0, [], [], finished)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    return DataFolder.load(make_data(tmp_path_factory.mktemp("data"), reverse, pairs=50, valid=6))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm_cli.distill.shards.SHARD", 16)


def texts(data: DataFolder) -> list[tuple[str, str]]:
    assert data.train is not None
    both = data.tokenizers.source, data.tokenizers.target
    pairs = data.train.pairs(range(len(data.train)))
    return [tuple(side.decode(ids) for side, ids in zip(both, pair, strict=True)) for pair in pairs]


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_sources_stay_and_targets_are_the_teachers(data: DataFolder, tmp_path: Path) -> None:
    report = distill(data, Teacher(data), tmp_path / "kd", PLAN)
    made = DataFolder.load(tmp_path / "kd")
    assert texts(made) == [(source, f"{source} {source}") for source, _ in texts(data)]
    assert (report.pairs, report.distilled, report.translated) == (50, 50, 50)
    assert made.fingerprint != data.fingerprint and is_distilled(data, tmp_path / "kd", PLAN)
    assert made.tokenizers.fingerprint == data.tokenizers.fingerprint
    assert made.valid is not None and data.valid is not None
    assert made.valid.texts() == data.valid.texts()
    assert made.report().read == data.report().read
    assert made.report().splits["train"].target_tokens == int(made.train.lengths[:, 1].sum())
    assert hidden(tmp_path) == []


def test_a_share_of_the_originals_is_kept(data: DataFolder, tmp_path: Path) -> None:
    plan = replace(PLAN, originals=0.2)
    teacher = Teacher(data)
    report = distill(data, teacher, tmp_path / "kd", plan)
    same = [new == old for new, old in zip(texts(DataFolder.load(tmp_path / "kd")), texts(data), strict=True)]
    assert same == drawn(50, 0.2, 1).tolist()
    assert (report.originals, report.distilled, len(teacher.read)) == (10, 40, 40)


@given(st.integers(0, 300), st.integers(0, 100).map(lambda percent: percent / 100), st.integers(0, 5))
def test_as_many_are_drawn_as_the_share_says(pairs: int, share: float, seed: int) -> None:
    kept = drawn(pairs, share, seed)
    assert kept.sum() == round(share * pairs)
    assert np.array_equal(kept, drawn(pairs, share, seed))


def test_bad_translations_leave_the_pair_its_own(data: DataFolder, tmp_path: Path) -> None:
    said = {WORDS[0]: "", WORDS[1]: "on and on ...", WORDS[2]: "word " * 400}
    report = distill(data, Teacher(data, lambda line: said.get(line.split()[0], "so")), tmp_path / "kd", PLAN)
    old, new = texts(data), texts(DataFolder.load(tmp_path / "kd"))
    bad = [source.split()[0] in said for source, _ in old]
    assert [target for _, target in new] == [o[1] if b else "so" for o, b in zip(old, bad, strict=True)]
    firsts = [source.split()[0] for source, _ in old]
    assert [report.empty, report.cut, report.unfit] == [firsts.count(word) for word in WORDS[:3]]
    assert report.distilled == 50 - sum(bad)


def test_goes_on_after_the_last_whole_shard(data: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        distill(data, Teacher(data, breaks_at=40), tmp_path / "kd", PLAN)
    assert not (tmp_path / "kd").exists()
    calls = []
    teacher = Teacher(data)
    report = distill(data, teacher, tmp_path / "kd", PLAN, on_progress=lambda *numbers: calls.append(numbers))
    assert (report.resumed, report.translated, len(teacher.read)) == (32, 18, 18)
    assert calls == [(16, 50, 16), (32, 50, 32), (48, 50, 32), (50, 50, 32)]
    distill(data, Teacher(data), tmp_path / "whole", PLAN)
    for file in ("train.arrow", "data.json"):
        assert (tmp_path / "kd" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert hidden(tmp_path) == []


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, teacher="another"),
        replace(PLAN, search=DecodeOptions(beam=2)),
        replace(PLAN, originals=0.1),
        replace(PLAN, precision="int8"),
        replace(PLAN, engine="ctranslate2"),
        replace(PLAN, seed=2),
    ],
)
def test_another_plan_begins_anew(data: DataFolder, tmp_path: Path, other: Plan) -> None:
    with pytest.raises(KeyboardInterrupt):
        distill(data, Teacher(data, breaks_at=40), tmp_path / "kd", PLAN)
    similar = tmp_path / f".kd-2-distilling-{'0' * 16}-16"  # of the output kd-2
    similar.mkdir()
    assert distill(data, Teacher(data), tmp_path / "kd", other).resumed == 0
    assert not is_distilled(data, tmp_path / "kd", PLAN)
    assert hidden(tmp_path) == [similar]  # nothing of the plan before it


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[",
        '[["so", "whole"]]',
        '[["so", true]]',
        "7",
        json.dumps([["so", "long ago"]] * 16),
        json.dumps(["so"] * 16),
    ],
)
def test_a_damaged_shard_is_made_anew(data: DataFolder, tmp_path: Path, damage: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        distill(data, Teacher(data, breaks_at=40), tmp_path / "kd", PLAN)
    (shards,) = hidden(tmp_path)
    (shards / "000000.json").write_text(damage)
    teacher = Teacher(data)
    report = distill(data, teacher, tmp_path / "kd", PLAN)
    assert (report.resumed, report.translated, len(teacher.read)) == (16, 34, 34)
    assert texts(DataFolder.load(tmp_path / "kd")) == [(source, f"{source} {source}") for source, _ in texts(data)]


def test_shards_of_another_size_are_not_taken(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        distill(data, Teacher(data, breaks_at=40), tmp_path / "kd", PLAN)
    monkeypatch.setattr("tfm_cli.distill.shards.SHARD", 20)
    assert distill(data, Teacher(data), tmp_path / "kd", PLAN).resumed == 0
    assert texts(DataFolder.load(tmp_path / "kd")) == [(source, f"{source} {source}") for source, _ in texts(data)]


class Reader:
    """An engine that says the same of everything, and remembers how many tokens it read of each source."""

    workers, default_options = 1, DecodeOptions()

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def decode(self, batch, options, with_scores=True):
        self.lengths += [len(source) - 1 for source in batch.sources]
        return [[Hypothesis([ord("s") + COUNT], 0.0, 0.0, [])] for _ in batch.sources]


def test_a_source_is_read_whole_by_another_tokenizer_or_keeps_its_pair(
    data: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = Tokenizer.train(["zzz zzz"], TokenizerOptions(vocab_size=270))  # all else are bytes
    lengths = [len(tokenizer.encode(source)) for source, _ in texts(data)]
    assert data.train is not None and max(lengths) > data.train.lengths[:, 0].max()
    reader = Reader()
    report = distill(data, Translator(reader, Tokenizers(tokenizer)), tmp_path / "kd", PLAN)
    assert sorted(reader.lengths) == sorted(lengths)
    assert (report.distilled, report.long) == (50, 0)
    monkeypatch.setattr("tfm_cli.distill.teacher.longest_read", lambda data: 12)
    report = distill(data, Translator(Reader(), Tokenizers(tokenizer)), tmp_path / "short", PLAN)
    assert 0 < report.long == sum(length > 12 for length in lengths) == 50 - report.distilled
    both = zip(texts(data), texts(DataFolder.load(tmp_path / "short")), lengths, strict=True)
    assert all(new[1] == (old[1] if length > 12 else "s") for old, new, length in both)


def test_a_teacher_with_another_tokenizer(data: DataFolder, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(sentences(80, seed=7), TokenizerOptions(vocab_size=290))
    torch.manual_seed(1)
    family = build_family("autoregressive", TINY, tokenizer.vocab_size, tokenizer.vocab_size).eval()
    teacher = Translator(TorchEngine(family), Tokenizers(tokenizer))
    distill(data, teacher, tmp_path / "kd", PLAN)
    old, new = texts(data), texts(DataFolder.load(tmp_path / "kd"))
    assert [source for source, _ in new] == [source for source, _ in old]
    about = json.loads((tmp_path / "kd" / "data.json").read_text())["distilled"]
    assert about["from"] == data.fingerprint and about["report"]["pairs"] == 50


def test_monolingual_text_joins_the_pairs(data: DataFolder, tmp_path: Path) -> None:
    held = data.valid.texts()[0][0] if data.valid else ""
    more = Monolingual.of(["ba ba ba", "", "ba ba ba", held, "di di", "ko ko ko ko", "du"], data)
    assert (more.lines, more.dropped) == (("ba ba ba", "di di", "ko ko ko ko", "du"), 3)
    plan = replace(PLAN, monolingual=more.fingerprint)

    def say(line: str) -> str:
        return {"di di": "di ...", "du": " "}.get(line, f"{line} {line}")

    report = distill(data, Teacher(data, say), tmp_path / "kd", plan, monolingual=more)
    made = DataFolder.load(tmp_path / "kd")
    assert texts(made)[:50] == texts_of(data, say)
    assert texts(made)[50:] == [("ba ba ba", "ba ba ba ba ba ba"), ("ko ko ko ko", "ko ko ko ko ko ko ko ko")]
    assert (report.pairs, report.added, report.unadded, report.translated) == (50, 2, 2, 54)
    assert made.pairs == len(made.train or ()) == 52
    assert not is_distilled(data, tmp_path / "kd", PLAN)


def test_monolingual_text_goes_on_where_it_was(data: DataFolder, tmp_path: Path) -> None:
    more = Monolingual.of([f"ba ba {word}" for word in WORDS], data)
    plan = replace(PLAN, monolingual=more.fingerprint)
    with pytest.raises(KeyboardInterrupt):
        distill(data, Teacher(data, breaks_at=60), tmp_path / "kd", plan, monolingual=more)
    report = distill(data, Teacher(data), tmp_path / "kd", plan, monolingual=more)
    assert (report.resumed, report.translated, report.added) == (48, 17, len(WORDS))
    assert texts(DataFolder.load(tmp_path / "kd"))[-1] == (
        f"ba ba {WORDS[-1]}",
        f"ba ba {WORDS[-1]} " * 1 + f"ba ba {WORDS[-1]}",
    )


def texts_of(data: DataFolder, say: Callable[[str], str]) -> list[tuple[str, str]]:
    """The pairs of ``data`` with the translations of such a teacher."""
    return [(source, say(source)) for source, _ in texts(data)]
