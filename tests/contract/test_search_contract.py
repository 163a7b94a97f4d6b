"""What every left-to-right search owes: one suite, run over greedy search, beam search and sampling."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.autoregressive.family import Autoregressive
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import Rules
from tfm_cli.autoregressive.search import beam_search
from tfm_cli.autoregressive.writers import Writers
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import COUNT, END

VOCAB = 31
SEARCHES = {
    "greedy": DecodeOptions(beam=1),
    "beam": DecodeOptions(beam=4),
    "beam without length penalty": DecodeOptions(beam=4, length_penalty=0.0),
    "n-best": DecodeOptions(beam=5, n_best=5),
    "sampling": DecodeOptions(sample=True),
    "several samples": DecodeOptions(sample=True, n_best=3, temperature=0.7, top_k=9, top_p=0.95),
}


@pytest.fixture(scope="module")
def family():
    torch.manual_seed(11)
    shape = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=2, decoder_layers=2, tie="none")
    network = Transformer(shape, VOCAB, VOCAB).eval()
    with torch.no_grad():
        # Sharper than fresh weights are, with an END that comes now and then.
        network.output.weight.mul_(4)
        network.output.weight[END] += network.output.weight[7] * 0.5
    return Autoregressive(network)


@pytest.fixture(params=SEARCHES.values(), ids=SEARCHES.keys())
def options(request):
    return request.param


@pytest.fixture(scope="module")
def sources():
    generator = torch.Generator().manual_seed(12)
    lengths = torch.randint(1, 12, (40,), generator=generator).tolist()
    return [[*torch.randint(COUNT, VOCAB, (n,), generator=generator).tolist(), END] for n in lengths]


def decode(family, sources, options, prefix=None, lines=None):
    return family.decode(pad(sources), options, prefix, lines)


def test_the_model_is_worth_testing(family, sources):
    found = [hypotheses[0] for hypotheses in decode(family, sources, DecodeOptions(beam=4))]
    assert len({tuple(h.tokens) for h in found}) > 30
    assert 3 < sum(h.finished for h in found) < 40


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"max_length_ratio": 0.5, "max_length_extra": 1},
        {"min_length_ratio": 1.0},
        {"no_repeat_ngram": 1, "max_length_extra": 40},
        {"length_penalty": 0.0},
    ],
)
@pytest.mark.parametrize("forced", [False, True])
def test_greedy_search_is_beam_search_with_one_beam(family, sources, changed, forced):
    options = DecodeOptions(beam=1, **changed)
    prefix = [source[: len(source) // 3] for source in sources] if forced else None
    ids = pad(sources)
    with torch.inference_mode():
        rules, writers = Rules.of(ids, options, prefix), Writers(family.networks, ids)
        slow = beam_search(writers, rules, ids, options, range(len(ids)))
    for [one], [other] in zip(decode(family, sources, options, prefix), slow, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_as_many_answers_as_sentences(family, sources, options):
    found = decode(family, sources, options)
    assert len(found) == len(sources)
    assert all(1 <= len(hypotheses) <= options.n_best for hypotheses in found)
    assert decode(family, [], options) == []


def test_no_control_ids(family, sources, options):
    tokens = [t for found in decode(family, sources, options) for h in found for t in h.tokens]
    assert min(tokens) >= COUNT


def test_cap_is_obeyed_and_told(family, sources, options):
    options = replace(options, max_length_ratio=0.5, max_length_extra=2)
    for source, found in zip(sources, decode(family, sources, options), strict=True):
        cap = -(-(len(source) - 1) // 2) + 2
        for h in found:
            written = len(h.tokens) + h.finished
            assert written <= cap
            assert h.finished or written == cap
            assert len(h.token_log_probs) == written


def test_minimum_is_obeyed(family, sources, options):
    options = replace(options, min_length_ratio=1.0)
    for source, found in zip(sources, decode(family, sources, options), strict=True):
        assert all(len(h.tokens) + 1 >= len(source) - 1 for h in found)


def test_best_first_and_scored_as_documented(family, sources, options):
    for found in decode(family, sources, options):
        scores = [h.score for h in found]
        assert scores == sorted(scores, reverse=True)
        for h in found:
            assert h.log_prob == pytest.approx(sum(h.token_log_probs), abs=1e-4)
            length = len(h.tokens) + h.finished
            assert h.score == pytest.approx(h.log_prob / length**options.length_penalty, rel=1e-5)


def test_hypotheses_of_a_search_are_distinct(family, sources, options):
    if options.sample:
        pytest.skip("samples may repeat")
    for found in decode(family, sources, options):
        assert len({(tuple(h.tokens), h.finished) for h in found}) == len(found) == options.n_best


def test_scores_are_those_of_teacher_forcing(family, sources, options):
    found = [hypotheses[-1] for hypotheses in decode(family, sources, options)]
    forced = family.score(Batch.of(sources, [h.tokens + [END] * h.finished for h in found]), options)
    for h, expected in zip(found, forced, strict=True):
        assert h.tokens == expected.tokens
        assert h.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-4)
        assert h.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize("size", [1, 3])
def test_batches_change_nothing(family, sources, options, size):
    lines = list(range(len(sources)))
    together = decode(family, sources, options, lines=lines)
    for begin in range(0, len(sources), size):
        part = slice(begin, begin + size)
        apart = decode(family, sources[part], options, lines=lines[part])
        for one, other in zip(together[part], apart, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_order_changes_nothing(family, sources, options):
    order = torch.randperm(len(sources), generator=torch.Generator().manual_seed(13)).tolist()
    straight = decode(family, sources, options)
    shuffled = decode(family, [sources[i] for i in order], options, lines=order)
    for place, i in enumerate(order):
        assert [h.tokens for h in shuffled[place]] == [h.tokens for h in straight[i]]


def test_the_same_twice(family, sources, options):
    assert decode(family, sources, options) == decode(family, sources, options)


def test_prefix_is_obeyed_and_counted(family, sources, options):
    prefixes = [[COUNT + i % 7] * (i % 4) for i in range(len(sources))]
    found = decode(family, sources, options, prefixes)
    for hypotheses, prefix in zip(found, prefixes, strict=True):
        for h in hypotheses:
            assert h.tokens[: len(prefix)] == prefix
    best = [hypotheses[0] for hypotheses in found]
    forced = family.score(Batch.of(sources, [h.tokens + [END] * h.finished for h in best]), options)
    assert [h.log_prob for h in best] == pytest.approx([h.log_prob for h in forced], abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_run_of_n_tokens_twice(family, sources, options, n):
    def repeats(tokens):
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        return len(runs) - len(set(runs))

    free = decode(family, sources, options)
    assert any(repeats(h.tokens) for found in free for h in found)
    blocked = decode(family, sources, replace(options, no_repeat_ngram=n))
    assert not any(repeats(h.tokens) for found in blocked for h in found)


def test_beam_1_is_greedy_search(family, sources):
    found = decode(family, sources, SEARCHES["greedy"])
    network = family.network
    for source, hypotheses in zip(sources, found, strict=True):
        memory = network.encode(pad([source]))
        tokens, cap = [], 2 * (len(source) - 1) + 10
        while len(tokens) < cap:
            logits = network.logits(network.decode(torch.tensor([[1, *tokens]]), memory, causal=True))[0, -1]
            logits[[0, 1, 3, 4]] = float("-inf")
            best = int(logits.argmax())
            if best == END:
                break
            tokens.append(best)
        assert hypotheses[0].tokens == tokens


def test_one_candidate_makes_sampling_greedy(family, sources):
    drawn = decode(family, sources, DecodeOptions(sample=True, top_k=1))
    greedy = decode(family, sources, SEARCHES["greedy"])
    assert [h[0].tokens for h in drawn] == [h[0].tokens for h in greedy]


def test_seed_and_line_fix_a_sample(family, sources):
    options = SEARCHES["sampling"]
    first = decode(family, sources, options)
    assert first != decode(family, sources, replace(options, seed=2))
    same_line = decode(family, [sources[0]] * 2, options, lines=[3, 3])
    other_line = decode(family, [sources[0]] * 2, options, lines=[3, 4])
    assert same_line[0] == same_line[1]
    assert other_line[0] != other_line[1]


def test_stopping_early_changes_no_result(family, sources, monkeypatch):
    """The search leaves a sentence when no beam can catch up; going on to k hypotheses gives the same best."""
    options = DecodeOptions(beam=4)
    early = decode(family, sources, options)
    monkeypatch.setattr(
        "tfm_cli.autoregressive.search.Finished.done",
        lambda self, beams, cap: (self.count >= self.options.beam) | ~(beams.log_prob.amax(1) > float("-inf")),
    )
    assert [h[0].tokens for h in decode(family, sources, options)] == [h[0].tokens for h in early]


def every_hypothesis(words, cap):
    """All sentences of at most ``cap`` tokens, END counted; those of ``cap`` words are cut."""
    sentences = [[]]
    for _ in range(cap):
        yield from ([*s, END] for s in sentences)
        sentences = [[*s, w] for s in sentences for w in words]
    yield from sentences


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.6, 1.0]))
def test_a_huge_beam_finds_the_true_best(seed, penalty):
    torch.manual_seed(seed)
    shape = Shape(dim=8, ffn_dim=8, heads=2, encoder_layers=1, decoder_layers=1, tie="none")
    network = Transformer(shape, 8, 8).double().eval()  # scores of -35 differ by more than the bound in float32
    with torch.no_grad():
        network.output.weight.mul_(4)
    family = Autoregressive(network)
    source, cap = [5, 6, END], 4
    targets = list(every_hypothesis([5, 6, 7], cap))
    options = DecodeOptions(
        beam=200, n_best=len(targets), max_length_ratio=0.0, max_length_extra=cap, length_penalty=penalty
    )
    truth = sorted((h.score for h in family.score(Batch.of([source] * len(targets), targets), options)), reverse=True)
    found = family.decode(pad([source]), replace(options, n_best=121))[0]
    assert [h.score for h in found] == pytest.approx(truth, abs=1e-5)
