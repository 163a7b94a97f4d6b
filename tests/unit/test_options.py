from collections.abc import Sequence
from dataclasses import dataclass, fields

import pytest

from tfm_cli.errors import TfmError
from tfm_cli.options import check, option


@dataclass(frozen=True)
class Sample:
    size: int = option(4, "Size.", minimum=1, maximum=10)
    rate: float = option(0.5, "Rate.", minimum=0)
    kind: str | None = option(None, "Kind.", choices=("small", "large"))
    names: Sequence[str] = option([], "Names.")
    budget: int | str = option(5, "Budget.", minimum=1, words=("auto",))


def test_the_defaults_pass():
    check(Sample())
    check(Sample(budget="auto"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, "--size: 0 is below the smallest value allowed, 1."),
        ({"size": 11}, "--size: 11 is above the largest value allowed, 10."),
        ({"rate": -0.1}, "--rate: -0.1 is below the smallest value allowed, 0."),
        ({"rate": float("nan")}, "--rate: a finite number is needed, not nan."),
        ({"rate": float("inf")}, "--rate: a finite number is needed, not inf."),
        ({"budget": 0}, "--budget: 0 is below the smallest value allowed, 1."),
        ({"budget": "aut"}, "--budget: 'aut' is neither a number nor auto."),
        ({"kind": "smal"}, "--kind: 'smal' is not one of small, large. Did you mean small?"),
    ],
)
def test_a_value_out_of_bounds_is_named(values, message):
    with pytest.raises(TfmError) as error:
        check(Sample(**values))
    assert str(error.value) == message


def test_instances_do_not_share_a_default_list():
    first, second = Sample(), Sample()
    assert first.names == second.names == []
    assert first.names is not second.names


def test_the_help_is_kept_with_the_field():
    assert [field.metadata["spec"].help for field in fields(Sample)] == ["Size.", "Rate.", "Kind.", "Names.", "Budget."]
