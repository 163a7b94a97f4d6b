from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.data.batching import collate, plan
from tfm_cli.transformer.special import PAD

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=80).map(
    lambda rows: np.array(rows, np.int32).reshape(-1, 2)
)


@settings(max_examples=200, deadline=None)
@given(lengths=LENGTHS, budget=st.integers(1, 200), multiple=st.integers(1, 4), epoch=st.integers(0, 3))
def test_every_padded_batch_is_within_the_budget_and_every_pair_used_or_counted(
    lengths, budget, multiple, epoch
) -> None:
    made = plan(lengths, budget, seed=1, epoch=epoch, multiple=multiple)
    used = np.concatenate([np.empty(0, int), *made.batches])
    padded = -(-lengths.max(axis=1, initial=0) // multiple) * multiple
    assert sorted(used) == np.flatnonzero(padded <= budget).tolist()
    assert made.left_out == len(lengths) - len(used)
    for batch in made.batches:
        assert 0 < len(batch) * padded[batch].max() <= budget


def test_an_outlier_is_left_out_and_does_not_widen_a_batch() -> None:
    lengths = np.full((1000, 2), 10, np.int32)
    lengths[500, 1] = 5000
    made = plan(lengths, 4096)
    assert made.left_out == 1
    assert len(made.batches) == 3


def test_seed_and_epoch_decide_the_batches() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, (2000, 2))
    same, again = plan(lengths, 1024, 3, 2), plan(lengths, 1024, 3, 2)
    assert all(np.array_equal(a, b) for a, b in zip(same.batches, again.batches, strict=True))
    for other in (plan(lengths, 1024, 3, 1), plan(lengths, 1024, 4, 2)):
        batches = {frozenset(batch.tolist()) for batch in other.batches}
        assert sum(frozenset(batch.tolist()) in batches for batch in same.batches) < len(same.batches) / 10


def test_the_plan_is_the_same_on_every_machine() -> None:
    lengths = np.array([[3, 4], [8, 8], [3, 3], [5, 9], [9, 2], [4, 4], [3, 4], [7, 7]])
    assert [batch.tolist() for batch in plan(lengths, 16, seed=1, epoch=0).batches] == PINNED


PINNED = [[2, 5, 6, 0], [3], [4], [7, 1]]


def test_batches_do_not_come_in_order_of_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, (5000, 2))
    longest = [lengths[batch].max() for batch in plan(lengths, 1024).batches]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_no_pairs_make_no_batches() -> None:
    made = plan(np.empty((0, 2), np.int32), 100)
    assert (made.batches, made.left_out) == ([], 0)


def test_collate_pads_on_the_right() -> None:
    pairs = [(np.array([7, 8, 2], np.int32), [9, 2]), ([5, 2], np.array([6, 6, 6, 2]))]
    batch = collate(pairs)
    assert batch.source.tolist() == [[7, 8, 2], [5, 2, PAD]]
    assert batch.target.tolist() == [[9, 2, PAD, PAD], [6, 6, 6, 2]]
    assert str(batch.source.dtype) == str(batch.target.dtype) == "torch.int64"


def test_padding_of_multi30k_is_under_five_percent(corpora: Path) -> None:
    from tfm_cli.text.corpus import read_pairs
    from tfm_cli.text.tokenizer import Tokenizer

    folder = corpora / "multi30k"
    sides = list(zip(*read_pairs(folder / "train.de.gz", folder / "train.en.gz"), strict=True))
    tokenizer = Tokenizer.train(text for side in sides for text in side)
    lengths = np.array([[len(ids) + 1 for ids in tokenizer.encode_batch(side)] for side in sides]).T
    batches = plan(lengths, 4096).batches
    padded = sum(len(batch) * lengths[batch].max(axis=0) for batch in batches)
    waste = 1 - lengths.sum(axis=0) / padded
    assert waste.max() < 0.05, waste
