"""What is shown in training, and that looking leaves no trace."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.nonautoregressive.glancing import choose, first_look, share
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
