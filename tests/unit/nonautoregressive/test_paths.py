"""The dynamic programs over graphs against enumeration of every path."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.nonautoregressive.links import _MixedSoftmax
from tfm_cli.nonautoregressive.paths import IMPOSSIBLE, align, best_scores, closed, path_sum, trace, walk


def paths(tokens, vertices):
    """All choices of as many vertices between start and end as there are tokens."""
    return list(combinations(range(1, vertices - 1), tokens))


def log_probability(log_links, emission, path, vertices):
    """Of one path by hand, ``emission`` [L, T]."""
    steps = zip((0, *path), (*path, vertices - 1), strict=True)
    said = [emission[vertex, token] for token, vertex in enumerate(path)]
    return sum([log_links[i, j] for i, j in steps] + said)


def graph(generator, vertices, spread=1.0):
    """Random links [B, L, L] of graphs of ``vertices`` [B]."""
    size = max(vertices)
    logits = torch.randn(len(vertices), size, size, generator=generator, dtype=torch.float64) * spread
    vertex = torch.arange(size)
    allowed = (vertex[:, None] < vertex) & (vertex < torch.tensor(vertices)[:, None, None])
    return logits.masked_fill(~allowed, -1e30).softmax(2) * allowed


@st.composite
def batches(draw, largest=7):
    """Lengths, sizes (too small for some), links and emissions of a few graphs."""
    vertices = draw(st.lists(st.integers(2, largest), min_size=1, max_size=3))
    lengths = [draw(st.integers(0, 4)) for _ in vertices]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    spread = draw(st.sampled_from([0.5, 3.0, 20.0]))
    emissions = torch.randn(len(vertices), max(vertices), max(lengths), generator=generator, dtype=torch.float64)
    return lengths, vertices, graph(generator, vertices, spread), (emissions * spread).log_softmax(2)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_sum_and_its_gradients_equal_enumeration(batch):
    lengths, vertices, links, emissions = batch
    links.requires_grad_()
    emissions.requires_grad_()
    total = path_sum(links, emissions, torch.tensor(lengths), torch.tensor(vertices))
    expected = []
    for row, (tokens, size) in enumerate(zip(lengths, vertices, strict=True)):
        terms = [log_probability(links[row].log(), emissions[row], path, size) for path in paths(tokens, size)]
        expected.append(torch.stack(terms).logsumexp(0) if terms else torch.tensor(IMPOSSIBLE, dtype=torch.float64))
    torch.testing.assert_close(total, torch.stack(expected))
    usable = torch.tensor([tokens + 2 <= size for tokens, size in zip(lengths, vertices, strict=True)])
    assert usable.tolist() == total.isfinite().tolist()
    if usable.any():
        factor = torch.arange(1, len(total) + 1)
        ours = torch.autograd.grad((total * factor)[usable].sum(), (links, emissions), materialize_grads=True)
        theirs = torch.autograd.grad(
            (torch.stack(expected) * factor)[usable].sum(), (links, emissions), materialize_grads=True
        )
        allowed = links > 0
        torch.testing.assert_close(ours[0] * allowed, theirs[0].nan_to_num() * allowed)
        torch.testing.assert_close(ours[1], theirs[1])


@settings(deadline=None, max_examples=60)
@given(batches())
def test_alignment_is_the_best_path(batch):
    lengths, vertices, links, emissions = batch
    found = align(links.log(), emissions, torch.tensor(lengths), torch.tensor(vertices))
    for row, (tokens, size) in enumerate(zip(lengths, vertices, strict=True)):
        if tokens + 2 <= size:
            args = (links[row].log(), emissions[row])
            best = max(float(log_probability(*args, path, size)) for path in paths(tokens, size))
            ours = float(log_probability(*args, found[row, :tokens].tolist(), size))
            assert ours == pytest.approx(best)


@settings(deadline=None, max_examples=40)
@given(batches())
def test_joint_search_finds_the_best_path_of_every_length(batch):
    _, vertices, links, emissions = batch
    said = emissions.sum(2)  # any reward per vertex
    vertex = torch.arange(links.shape[1])
    sizes = torch.tensor(vertices)
    said = said.masked_fill((vertex == 0) | (vertex >= sizes[:, None] - 1), IMPOSSIBLE)
    scores = best_scores(links.log(), said.expand(4, -1, -1))
    final = closed(scores, links.log(), sizes)
    for row, size in enumerate(vertices):
        emission = said[row, :, None].expand(-1, 4)
        for tokens in range(5):
            terms = [float(log_probability(links[row].log(), emission, path, size)) for path in paths(tokens, size)]
            assert float(final[tokens, row]) == pytest.approx(max(terms, default=IMPOSSIBLE))
            if terms:
                lengths = torch.full((len(vertices),), tokens)
                path = trace(scores, links.log(), lengths, sizes)[row, :tokens].tolist()
                assert float(log_probability(links[row].log(), emission, path, size)) == pytest.approx(max(terms))


def test_walks_follow_the_best_link_with_or_without_the_word():
    generator = torch.Generator().manual_seed(8)
    vertices = [9, 2, 6]
    log_links = graph(generator, vertices).log()
    reward = torch.randn(3, 9, generator=generator, dtype=torch.float64)
    for given_reward in (torch.zeros_like(reward), reward):
        walks = walk(log_links, given_reward, torch.tensor(vertices))
        for row, size in enumerate(vertices):
            at, taken = 0, []
            while True:
                at = max(range(at + 1, size), key=lambda j: log_links[row, at, j] + given_reward[row, j])
                if at == size - 1:
                    break
                taken.append(at)
            assert walks[row] == taken


def test_a_sum_does_not_depend_on_its_neighbours():
    generator = torch.Generator().manual_seed(9)
    vertices, lengths = [12, 7, 9], [6, 3, 0]
    links = graph(generator, vertices).float()
    emissions = torch.randn(3, 12, 6, generator=generator).log_softmax(2)
    together = path_sum(links, emissions, torch.tensor(lengths), torch.tensor(vertices))
    for row, (size, tokens) in enumerate(zip(vertices, lengths, strict=True)):
        graph_alone = links[row : row + 1, :size, :size], emissions[row : row + 1, :size, :tokens]
        alone = path_sum(*graph_alone, torch.tensor([tokens]), torch.tensor([size]))
        torch.testing.assert_close(alone[0], together[row])


def test_long_and_unlikely_sentences_stay_finite():
    """Every token costs e^-40, and the one path that a graph of just enough vertices has uses its unlikeliest links."""
    size = 152
    links = torch.full((1, size, size), 1e-20).triu(1)
    links[0, :, -1] = 1.0
    emissions = torch.full((1, size, 150), -40.0, requires_grad=True)
    total = path_sum(links.requires_grad_(), emissions, torch.tensor([150]), torch.tensor([size]))
    total.sum().backward()
    torch.testing.assert_close(total, torch.full((1,), -150 * (40 + 46.0517)), rtol=1e-5, atol=0)
    torch.testing.assert_close(emissions.grad.sum(1), torch.ones(1, 150))
    assert links.grad.isfinite().all()


def test_gradients_of_sharp_links_and_emissions_are_finite_in_float32():
    """What a forbidden link would bring, to a path that is held to unlikely ones, is more than float32 can hold."""
    size, tokens, batch = 120, 30, 4
    generator = torch.Generator().manual_seed(0)
    scores = (torch.randn(batch, 4, size, size, generator=generator) * 5).requires_grad_()
    gates = torch.rand(batch, 4, size, generator=generator).softmax(1).requires_grad_()
    emissions = torch.randn(batch, size, tokens, generator=generator) * 10
    emissions = (emissions - emissions.amax(2, keepdim=True)).requires_grad_()
    allowed = torch.ones(batch, size, size, dtype=torch.bool).triu(1)
    links = _MixedSoftmax.apply(scores, gates, allowed)
    total = path_sum(links, emissions, torch.full((batch,), tokens), torch.full((batch,), size))
    for gradient in torch.autograd.grad(total.sum(), (scores, gates, emissions)):
        assert gradient.isfinite().all()
