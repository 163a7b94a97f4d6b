import pytest
import torch

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import NEVER, Rules, forbid_repeats
from tfm_cli.errors import TfmError
from tfm_cli.transformer.batch import pad
from tfm_cli.transformer.special import BEGIN, BLANK, END, MASK, PAD


def rules(sources, prefix=None, **options):
    return Rules.of(pad(sources), DecodeOptions(**options), prefix)


def history(*rows):
    return torch.tensor(rows).unsqueeze(1)


def allowed(log_probs):
    return [(row > NEVER).nonzero().flatten().tolist() for row in log_probs.flatten(0, 1)]


def test_cap_and_floor_are_relative_to_the_source():
    made = rules([[7, 8, 9, END], [7, END]], max_length_ratio=1.5, max_length_extra=2, min_length_ratio=0.5)
    assert made.cap.tolist() == [7, 4]
    assert made.floor.tolist() == [1, 0]


def test_a_long_prefix_lifts_the_cap():
    made = rules([[7, END]], prefix=[[8] * 9], max_length_ratio=1.0, max_length_extra=1)
    assert made.cap.tolist() == [10]


def test_control_ids_are_never_allowed():
    log_probs = torch.zeros(1, 2, 9)
    rules([[7, END]]).apply(log_probs, torch.empty(1, 2, 0, dtype=torch.int64))
    assert allowed(log_probs) == [[END, 5, 6, 7, 8]] * 2
    assert {PAD, BEGIN, MASK, BLANK} == {0, 1, 3, 4}


def test_end_waits_for_the_floor():
    made = rules([[7] * 4 + [END], [7, END]], min_length_ratio=0.75)
    for written, expected in ((1, [False, True]), (2, [True, True])):
        log_probs = torch.zeros(2, 1, 9)
        made.apply(log_probs, torch.full((2, 1, written), 6))
        assert (log_probs[:, 0, END] > NEVER).tolist() == expected


def test_prefix_forces_its_tokens_only_and_keeps_their_probability():
    made = rules([[7, END], [7, END]], prefix=[[8, 6], [5]], no_repeat_ngram=1)
    log_probs = torch.arange(18.0).view(2, 1, 9)
    made.apply(log_probs, history([8], [5]))
    assert allowed(log_probs) == [[6], [END, 6, 7, 8]]
    assert log_probs[0, 0, 6] == 6
    # The prefix wins over the ban on repeats.
    made = rules([[7, END]], prefix=[[8, 8]], no_repeat_ngram=1)
    log_probs = torch.arange(9.0).view(1, 1, 9)
    made.apply(log_probs, history([8]))
    assert log_probs[0, 0].tolist() == [NEVER] * 8 + [8.0]


def test_no_repeat_bans_what_followed_before():
    log_probs = torch.zeros(2, 1, 10)
    forbid_repeats(log_probs, history([5, 6, 7, 5, 6], [5, 6, 7, 8, 9]), 3)
    assert allowed(log_probs)[0] == [1, 2, 3, 4, 5, 6, 8, 9]
    assert allowed(log_probs)[1] == list(range(1, 10))
    log_probs = torch.zeros(1, 1, 10)
    forbid_repeats(log_probs, history([5, 6]), 3)
    assert allowed(log_probs)[0] == list(range(10))
    forbid_repeats(log_probs, history([5, 6]), 1)
    assert allowed(log_probs)[0] == [0, 1, 2, 3, 4, 7, 8, 9]


def test_select_keeps_sentences():
    made = rules([[7, END], [7, 7, END]], prefix=[[5], [6]])
    made.select(torch.tensor([1]))
    assert made.cap.tolist() == [14]
    assert made.prefix.tolist() == [[6]]


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"beam": 0}, "--beam"),
        ({"n_best": 6}, "--n-best"),
        ({"temperature": 0.5}, "--temperature"),
        ({"top_k": 3}, "--top-k"),
        ({"top_p": 0.9}, "--top-p"),
        ({"sample": True, "temperature": 0.0}, "--temperature"),
        ({"sample": True, "top_p": 1.5}, "--top-p"),
        ({"min_length_ratio": 3.0}, "--min-length-ratio"),
        ({"length_penalty": -1.0}, "--length-penalty"),
    ],
)
def test_contradictions_are_refused_by_name(wrong, option):
    with pytest.raises(TfmError) as error:
        DecodeOptions(**wrong)
    assert error.value.where == option


def test_samples_need_no_beam():
    assert DecodeOptions(sample=True, n_best=7, temperature=0.7).width == 7
    assert DecodeOptions(beam=4).width == 4
