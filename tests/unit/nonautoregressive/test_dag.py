"""The directed acyclic transformer: loss by enumeration, counted pairs, the three ways to choose a path, exact lengths."""

from itertools import combinations

import pytest
import torch

from tfm_cli.nonautoregressive.dag import Dag
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.nonautoregressive.slots import slot_states
from tfm_cli.transformer.batch import Batch
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END, MASK, PAD

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
SOURCES = [[7, 8, 9, END], [8, END], [5, 6, END]]
TARGETS = [[9, 8, 8, END], [8, 7, 6, 5, 9, 9, 9, END], [END]]  # the second needs nine vertices


def made(**settings):
    torch.manual_seed(3)
    family = Dag(Transformer(SHAPE, 20, 20), **settings)
    with torch.no_grad():
        family.network.target_embedding.weight.mul_(2)
    return family


def graph(family, source):
    """Log-links [V, V] and log-probabilities [V, 20] of one sentence, through all logits."""
    memory = family.network.encode(torch.tensor([source]))
    ids, real = family._row(memory)
    states = slot_states(family.network, memory, ids, real)
    links = family.links(states, torch.ones(1, len(states), dtype=torch.bool))[0]
    return links.clamp(min=1e-38).log(), family.network.logits(states).log_softmax(-1)


def log_probability(log_links, log_probs, path, words):
    steps = zip((0, *path), (*path, len(log_links) - 1), strict=True)
    said = [log_probs[vertex, word] for vertex, word in zip(path, words, strict=True)]
    return sum([log_links[i, j] for i, j in steps] + said)


def enumerated(family, source, words):
    """Of every path that says ``words``, its log-probability."""
    log_links, log_probs = graph(family, source)
    paths = combinations(range(1, len(log_links) - 1), len(words))
    return [log_probability(log_links, log_probs, path, words) for path in paths]


@pytest.mark.parametrize("vertices", [2, 3, 4])
def test_the_loss_sums_over_all_paths_and_unusable_pairs_are_counted(vertices):
    torch.set_flush_denormal(
        False
    )  # as a training in this process may have left it; enumeration needs the smallest links
    family = made(vertices=vertices)
    report = family.loss(Batch.of(SOURCES, TARGETS), 0.0)
    usable = [(s, t[:-1]) for s, t in zip(SOURCES, TARGETS, strict=True) if len(t) + 1 <= vertices * len(s)]
    assert len(usable) == 2
    expected = -sum(torch.stack(enumerated(family, *pair)).logsumexp(0) for pair in usable)
    assert (report.count, int(report.parts["unusable"])) == (5, 1)
    torch.testing.assert_close(report.sum, expected)
    weights = list(family.parameters())
    mine = torch.autograd.grad(report.sum, weights, allow_unused=True)
    twin = torch.autograd.grad(expected, weights, allow_unused=True)
    for ours, theirs in zip(mine, twin, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_batch_without_a_usable_pair_has_no_loss_and_finite_gradients():
    family = made(vertices=1)
    report = family.loss(Batch.of([[8, END]], [[8, 8, 8, 8, END]]), 0.0)
    report.sum.backward()
    assert (report.sum.item(), report.count, int(report.parts["unusable"])) == (0.0, 0, 1)
    assert all(p.grad.isfinite().all() for p in family.parameters() if p.grad is not None)


@pytest.mark.parametrize("paths", ["greedy", "lookahead", "viterbi"])
def test_paths_are_chosen_as_they_are_called(paths):
    family = made().eval()
    found = family.decode(Batch.of(SOURCES, SOURCES).source, NonAutoregressiveDecodeOptions(paths=paths))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        log_links, log_probs = graph(family, source)
        best = log_probs.index_fill(1, torch.tensor([0, 1, 2, 3, 4]), float("-inf")).max(1)
        end = len(log_links) - 1
        if paths == "viterbi":
            by_length = []
            for count in range(end):
                ways = combinations(range(1, end), count)
                terms = [(float(log_probability(log_links, log_probs, w, best.indices[list(w)])), w) for w in ways]
                score, path = max(terms)
                by_length.append((score / (count + 1), list(path)))
            path = max(by_length)[1]
        else:
            reward = best.values * (paths == "lookahead")
            path, at = [], 0
            while at != end:
                onward = [log_links[at, j] + (reward[j] if j != end else 0) for j in range(at + 1, end + 1)]
                at = at + 1 + int(torch.stack(onward).argmax())
                path.append(at)
            path = path[:-1]
        words = best.indices[path].tolist()
        assert hypotheses[0].tokens == words
        expected = log_probability(log_links, log_probs, path, words).item()
        assert hypotheses[0].log_prob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("paths", ["greedy", "lookahead", "viterbi"])
@pytest.mark.parametrize("scale", [0.5, 1.5, 2.0])
def test_the_length_scale_is_obeyed_exactly(paths, scale):
    family, source = made(vertices=8).eval(), Batch.of(SOURCES, SOURCES).source
    plain = family.decode(source, NonAutoregressiveDecodeOptions(paths=paths))
    scaled = family.decode(source, NonAutoregressiveDecodeOptions(paths=paths, length_scale=scale))
    for sentence, before, after in zip(SOURCES, plain, scaled, strict=True):
        wanted = min(int(scale * len(before[0].tokens) + 0.5), 8 * len(sentence) - 2)
        assert len(after[0].tokens) == wanted


def test_scores_are_those_of_the_best_path():
    family, options = made().eval(), NonAutoregressiveDecodeOptions(paths="viterbi")
    found = family.decode(Batch.of(SOURCES, SOURCES).source, options)
    batch = Batch.of(SOURCES, [[*each[0].tokens, END] for each in found])
    for written, scored in zip(found, family.score(batch, options), strict=True):
        assert scored.tokens == written[0].tokens
        assert scored.token_log_probs == pytest.approx(written[0].token_log_probs, abs=1e-4)
    for source, target, scored in zip(
        SOURCES, TARGETS, made(vertices=3).eval().score(Batch.of(SOURCES, TARGETS)), strict=True
    ):
        assert scored.tokens == target[:-1]
        best = max(enumerated(made(vertices=3), source, target[:-1]), default=torch.tensor(float("-inf")))
        assert scored.log_prob == pytest.approx(float(best), abs=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_glancing_shows_a_share_of_the_tokens_on_the_best_path(share):
    family = made(vertices=3, glancing=True, glancing_start=share, glancing_end=0.0)
    batch = Batch.of(SOURCES, TARGETS)
    memory, target = family.network.encode(batch.source), batch.target.masked_fill(batch.target == END, PAD)
    ids, real = family._row(memory)
    shown, said = family._shown(memory, ids, real, target, share)
    assert ((shown != MASK) == (said >= 0)).all()
    assert (shown[1:] == MASK).all()  # the second pair is unusable, the third has no word
    for vertex in (said[0] >= 0).nonzero()[:, 0].tolist():
        assert shown[0, vertex] == target[0, said[0, vertex]]
    tokens = said[0][said[0] >= 0].tolist()
    assert tokens == sorted(set(tokens))  # along one path
    assert len(tokens) <= int(3 * share + 0.5)
    report = family.loss(batch, 0.0)
    report.sum.backward()
    assert report.sum.isfinite() and all(p.grad.isfinite().all() for p in family.parameters() if p.grad is not None)
    if share == 1.0:
        assert tokens  # an untrained model errs somewhere
        assert report.sum < made(vertices=3).loss(batch, 0.0).sum  # what is shown costs nothing


def test_every_path_passes_the_shown_vertices(monkeypatch):
    """With both tokens shown, one path is left; its links are all that it costs."""
    family = made(vertices=3, glancing=True)
    batch = Batch.of([[7, 8, 9, END]], [[9, 6, END]])
    ids, _ = family._row(family.network.encode(batch.source))
    said = torch.full_like(ids, -1)
    said[0, 2], said[0, 5] = 0, 1
    monkeypatch.setattr(family, "_shown", lambda *_: (ids, said))
    log_links, _ = graph(family, batch.source[0].tolist())
    expected = log_links[0, 2] + log_links[2, 5] + log_links[5, -1]
    torch.testing.assert_close(-family.loss(batch, 0.0).sum, expected)


def test_nothing_is_looked_at_when_nothing_is_to_be_shown(monkeypatch):
    family = made(glancing=True, glancing_start=1.0, glancing_end=0.0)
    monkeypatch.setattr(family, "_shown", None)
    assert family.loss(Batch.of(SOURCES, TARGETS), 1.0).sum.isfinite()


def test_evaluation_never_glances():
    batch = Batch.of(SOURCES, TARGETS)
    plain, glancing = made().eval().loss(batch, 0.0), made(glancing=True).eval().loss(batch, 0.0)
    assert plain.sum.item() == glancing.sum.item()


@pytest.mark.parametrize("vertices", [1, 2, 3, 4])
def test_room_is_what_the_graph_can_hold(vertices):
    family, lengths = made(vertices=vertices), torch.tensor([len(each) for each in TARGETS])
    report = family.loss(Batch.of(SOURCES, TARGETS), 0.0)
    room = family.room(torch.tensor([len(each) for each in SOURCES]))
    assert int((lengths > room).sum()) == int(report.parts["unusable"])
