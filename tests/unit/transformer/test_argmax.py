"""The greatest number is found where torch finds it."""

import pytest
import torch

from tfm_cli.transformer.argmax import greatest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_first_greatest_of_each_row(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.randint(0, 40, (300, 77)).to(dtype)  # full of equal ones
    x[5] = float("-inf")
    x[6, :-1] = float("-inf")
    values, places = greatest(x)
    assert values.dtype == dtype
    assert torch.equal(values, x.amax(1))
    assert places.tolist() == [row.index(max(row)) for row in x.tolist()]


def test_a_strided_row_and_none() -> None:
    x = torch.randn(8, 5).T
    assert torch.equal(greatest(x)[1], x.argmax(1))
    assert greatest(x[:0])[0].shape == (0,)
