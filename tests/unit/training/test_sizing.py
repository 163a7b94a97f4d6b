"""`--batch-tokens auto`, and the memory it goes by."""

import json
import mmap
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toys import trainer
from tfm_cli.errors import TfmError
from tfm_cli.training import memory, sizing
from tfm_cli.training.learner import Learner
from tfm_cli.training.optim import MixedPrecisionOptimizer
from tfm_cli.training.options import LearningOptions
from tfm_cli.training.sizing import LARGEST, STEP, budget
from tfm_cli.transformer.batch import Batch
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape

SLOW_VALIDATION = {"valid_every": 1000, "valid_sentences": 4}
GB = 10**9


@given(
    st.integers(0, 10**8), st.integers(1, 10**6), st.integers(64, 512), st.integers(513, 4096), st.integers(0, 10**11)
)
def test_the_budget_is_the_largest_that_a_straight_line_allows(
    fixed: int, each: int, low: int, high: int, free: int
) -> None:
    tokens = budget([(low, fixed + low * each), (high, fixed + high * each)], free)
    assert tokens % STEP == 0
    assert tokens <= LARGEST
    assert tokens == 0 or fixed + tokens * each <= free
    assert tokens == LARGEST or fixed + (tokens + STEP) * each > free - each


def test_where_more_tokens_take_no_more_memory_the_largest_budget_is_taken() -> None:
    assert budget([(512, 1000), (2048, 1000)], 2000) == LARGEST
    assert budget([(512, 1000), (2048, 1000)], 500) == 0
    assert budget([(512, 1000)], 2000) == LARGEST


class Machine:
    """Stands in for `Gauge`: a machine with ``free`` bytes, on which a step takes ``fixed`` and ``each`` per token."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int | None, fixed: int = 0, each: int = 0) -> None:
        self.free, self.fixed, self.each = free, fixed, each
        self.sizes = iter(sizing.TRIALS)
        monkeypatch.setattr(sizing, "Gauge", lambda device: self)

    def peak(self, act: object) -> int:
        act()  # type: ignore[operator]
        return self.fixed + self.each * next(self.sizes)


def test_auto_is_a_run_with_the_number_it_found(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit: the trials change neither weights nor random states. The number is what is kept."""
    Machine(monkeypatch, free=4 * GB, each=2 * 10**6)
    auto = trainer(
        reverse_data, tmp_path / "auto", max_steps=4, learning={"batch_tokens": "auto"}, validation=SLOW_VALIDATION
    )
    found = auto.feed.batch_tokens
    assert 512 < found < 2048
    assert "GB" in auto.notes[0] and f"{found:,}" in auto.notes[0]
    auto.run()
    told = trainer(
        reverse_data, tmp_path / "told", max_steps=4, learning={"batch_tokens": found}, validation=SLOW_VALIDATION
    )
    told.run()
    assert torch.equal(auto.optimizer.master, told.optimizer.master)
    assert json.loads((tmp_path / "auto" / "training.json").read_text())["learning"]["batch_tokens"] == found
    start = json.loads((tmp_path / "auto" / "log.jsonl").read_text().splitlines()[0])
    assert start["batch_tokens"] == found and start["notes"] == list(auto.notes)


def test_a_resumed_run_keeps_the_number(reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"learning": {"batch_tokens": "auto"}, "validation": SLOW_VALIDATION}
    Machine(monkeypatch, free=None)
    trainer(reverse_data, tmp_path, max_steps=2, **settings).run()
    monkeypatch.setattr(sizing, "UNKNOWN", 333)
    resumed = trainer(reverse_data, tmp_path, max_steps=4, resume=True, **settings)
    assert resumed.feed.batch_tokens == 2048


def test_a_machine_without_room_says_so_before_anything_is_written(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(monkeypatch, free=10**6, each=10**6)
    with pytest.raises(TfmError, match="does not fit") as error:
        trainer(reverse_data, tmp_path / "run", learning={"batch_tokens": "auto"})
    assert error.value.where == "--batch-tokens auto"
    assert not (tmp_path / "run").exists()


def test_where_the_second_trial_does_not_fit_the_largest_below_it_that_does_is_taken(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(monkeypatch, free=4 * GB, each=1)
    rehearse = Learner.rehearse

    def cramped(learner: Learner, batch: Batch) -> None:
        if batch.source.numel() > 1100:
            raise MemoryError
        rehearse(learner, batch)

    monkeypatch.setattr(Learner, "rehearse", cramped)
    run = trainer(reverse_data, tmp_path, learning={"batch_tokens": "auto"})
    assert 512 < run.feed.batch_tokens < 1400
    assert "no room for 2,048" in run.notes[0]


def test_what_updates_take_is_known_beforehand() -> None:
    torch.manual_seed(1)
    network = Transformer(Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1), 20, 20)
    count = sum(p.numel() for p in network.parameters())
    assert MixedPrecisionOptimizer(network, LearningOptions(optimizer="adam")).bytes_of_updates == 8 * count
    muon = MixedPrecisionOptimizer(network, LearningOptions(optimizer="muon"))
    assert muon.muon is not None
    kept = muon.muon.momentum.numel()
    assert 8 * (count - kept) < muon.bytes_of_updates <= 8 * (count - kept) + 16 * kept


def touch(size: int) -> None:
    """Take memory from the system: an array might be given what an earlier one has left."""
    with mmap.mmap(-1, size) as room:
        for page in range(0, size, mmap.PAGESIZE):
            room[page] = 1


@pytest.mark.skipif(not memory.PROC.joinpath("self", "clear_refs").exists(), reason="only Linux tells its memory")
def test_the_gauge_sees_what_a_step_takes_and_gives_back() -> None:
    gauge = memory.Gauge(torch.device("cpu"))
    assert gauge.free and gauge.free > 10**7
    small, large = (gauge.peak(lambda size=size: touch(size)) for size in (10**6, 10**8))  # type: ignore[misc]
    assert 0.9e8 < large < 1.5e8
    assert small < 0.5e8


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """A limit may stand on any group around this process; files that can be given up count as free."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    monkeypatch.setattr(memory, "PROC", proc)
    monkeypatch.setattr(memory, "CGROUPS", groups)
    assert memory.free_memory() is None
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: {16 * 1024**2} kB\nMemAvailable: {8 * 1024**2} kB\n")
    (proc / "self" / "cgroup").write_text("0::/job/step\n" if version == 2 else "4:memory:/job/step\n3:cpu:/\n")
    assert memory.free_memory() == 8 * 1024**3
    root = groups if version == 2 else groups / "memory"
    limit, usage = ("max", "current") if version == 2 else ("limit_in_bytes", "usage_in_bytes")
    for folder, granted, used in ((root / "job", 3000, 1000), (root / "job" / "step", "max", 500)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"memory.{limit}").write_text(f"{granted}\n")
        (folder / f"memory.{usage}").write_text(f"{used}\n")
        (folder / "memory.stat").write_text("anon 600\ninactive_file 400\n")
    assert memory.free_memory() == 3000 - 1000 + 400
