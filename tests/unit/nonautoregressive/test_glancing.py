"""What is shown in training, and that looking leaves no trace."""

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.nonautoregressive.glancing import choose, errs, first_look, revealed, share
from tfm_cli.transformer.dropout import Dropout


def test_the_share_runs_along_a_line() -> None:
    assert [share(p, 0.5, 0.3) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.5, 0.4, 0.3])
    assert share(2.0, 0.5, 0.3) == pytest.approx(0.3)


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6), st.data())
def test_exactly_so_many_are_chosen_and_only_from_among_these(rows: list[list[bool]], data: st.DataObject) -> None:
    among = torch.tensor(rows)
    count = torch.tensor([data.draw(st.integers(0, 7)) for _ in rows])
    chosen = choose(count, among)
    assert not (chosen & ~among).any()
    assert chosen.sum(1).tolist() == torch.minimum(count, among.sum(1)).tolist()


def test_every_position_is_chosen_as_often_as_any_other() -> None:
    torch.manual_seed(1)
    among = torch.tensor([[True, False, True, True, True]]).expand(4000, -1)
    often = choose(torch.full((4000,), 2.0), among).double().mean(0)
    assert often.tolist() == pytest.approx([0.5, 0, 0.5, 0.5, 0.5], abs=0.04)


def test_the_pass_after_a_first_look_has_the_same_dropout_and_a_gradient() -> None:
    dropout, x = Dropout(0.5), torch.ones(100, requires_grad=True)
    with first_look(x.device):
        first = dropout(x)
    second = dropout(x)
    assert torch.equal(first, second)
    assert second.requires_grad and not first.requires_grad
    assert not torch.equal(second, dropout(x))


def test_as_many_are_shown_as_the_share_says_on_average() -> None:
    torch.manual_seed(1)
    counts = revealed(0.1, torch.full((8000,), 3))  # rounded to the nearest, none would ever be
    assert set(counts.tolist()) == {0.0, 1.0}
    assert counts.mean().item() == pytest.approx(0.3, abs=0.03)
    assert revealed(1.0, torch.tensor([0, 1, 7])).tolist() == [0, 1, 7]


def test_a_token_errs_where_another_that_may_stand_there_is_likelier() -> None:
    torch.manual_seed(2)
    states, weight = torch.randn(50, 6), torch.randn(9, 6)
    ids = torch.randint(2, 9, (50,))
    best = (states @ weight.T).index_fill(1, torch.tensor([0, 1]), float("-inf")).argmax(1)
    assert torch.equal(errs(states, weight, ids, (0, 1), chunk=7), best != ids)
    assert not errs(states, weight, best, (0, 1)).any()
    assert errs(states[:0], weight, ids[:0], (0, 1)).shape == (0,)


def test_a_first_look_gives_back_what_any_kind_of_device_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fork(devices: list[torch.device], device_type: str) -> AbstractContextManager[None]:
        asked.append((devices, device_type))
        return nullcontext()

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    for kind in ("mps", "xpu", "cuda"):
        with first_look(torch.device(kind)):
            pass
    assert asked == [([torch.device(kind)], kind) for kind in ("mps", "xpu", "cuda")]
