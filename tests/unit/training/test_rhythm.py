from tfm_cli.training.limits import Limits
from tfm_cli.training.options import RunOptions
from tfm_cli.training.rhythm import LONGEST_WITHOUT_SAVING, VALIDATION_SHARE, Rhythm


def rhythm(every: int = 0, validates: bool = True, cost: float = 0.0, **run: float) -> Rhythm:
    return Rhythm(Limits(RunOptions(**run), patience=0), every, validates, cost)  # type: ignore[arg-type]


def test_a_dear_validation_stays_below_its_share() -> None:
    each = rhythm(cost=10.0)
    earliest = 10 / VALIDATION_SHARE - 10
    assert not each.look_due(1, True, earliest - 1)
    assert each.look_due(1, True, earliest)
    assert not each.look_due(1, False, earliest)
    each.looked_at = earliest
    assert not each.look_due(2, True, earliest + 20)


def test_every_so_many_updates_whatever_it_costs() -> None:
    each = rhythm(every=4, cost=1000.0)
    assert [each.look_due(step, step == 5, 1.0) for step in range(1, 9)] == [step in (4, 8) for step in range(1, 9)]


def test_no_look_that_would_leave_no_time_for_the_closing_one() -> None:
    each = rhythm(every=1, cost=10.0, max_minutes=1)
    assert each.look_due(1, False, 60 - 10 - each.closing)
    assert not each.look_due(1, False, 60 - 10 - each.closing + 1)


def test_saving_is_never_far_off() -> None:
    each = rhythm(validates=False)
    assert not each.save_due(LONGEST_WITHOUT_SAVING)
    assert each.save_due(LONGEST_WITHOUT_SAVING + 1)
    each.saved_at = 10.0
    assert not each.save_due(LONGEST_WITHOUT_SAVING + 1)
    assert each.look_due(1, False, LONGEST_WITHOUT_SAVING + 1)
