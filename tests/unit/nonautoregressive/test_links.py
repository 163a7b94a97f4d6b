"""Links between vertices: a distribution over later vertices, mixed from heads, with the gradients of its plain twin."""

import torch

from tfm_cli.nonautoregressive.family import rows
from tfm_cli.nonautoregressive.links import Links, _MixedSoftmax
from tfm_cli.transformer.positions import sinusoids


def test_links_go_forward_and_add_up_to_one():
    torch.manual_seed(1)
    links = Links(8, 2)(torch.randn(13, 8), rows(torch.tensor([7, 2, 4])))
    for table, size in zip(links, (7, 2, 4), strict=True):
        assert (table.tril() == 0).all()
        assert (table[size - 1 :] == 0).all() and (table[:, size:] == 0).all()
        assert (table[: size - 1, :size].triu(1) > 0).sum() == size * (size - 1) // 2
        torch.testing.assert_close(table[: size - 1].sum(1), torch.ones(size - 1))


def test_a_graph_does_not_depend_on_its_neighbours():
    torch.manual_seed(2)
    layer, states = Links(8, 4), torch.randn(14, 8)
    together = layer(states, rows(torch.tensor([9, 5])))
    torch.testing.assert_close(layer(states[9:], rows(torch.tensor([5])))[0], together[1, :5, :5])


def test_links_equal_the_attention_of_their_equation_with_gradients() -> None:
    torch.manual_seed(5)
    layer, states = Links(8, 2), torch.randn(6, 8, requires_grad=True)
    x = torch.cat((states, sinusoids(6, 8)), 1)
    query, key = (each(x).view(6, 2, 4).transpose(0, 1) for each in (layer.query, layer.key))
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    heads = (query @ key.transpose(1, 2) / 2).masked_fill(~later, -1e30).softmax(2) * later
    expected = torch.einsum("ic,cij->ij", layer.gate(states).softmax(1), heads)
    found = layer(states, torch.ones(1, 6, dtype=torch.bool))[0]
    torch.testing.assert_close(found, expected)
    toward = torch.randn(6, 6) * later  # nobody asks for a link that cannot be
    inputs = (states, *layer.parameters())
    for ours, plain in zip(*(torch.autograd.grad((x * toward).sum(), inputs) for x in (found, expected)), strict=True):
        torch.testing.assert_close(ours, plain)


def test_no_link_is_quite_impossible():
    scores = torch.zeros(1, 1, 3, 3)
    scores[..., 2] = 500.0
    links = _MixedSoftmax.apply(scores, torch.ones(1, 1, 3), torch.ones(1, 3, 3, dtype=torch.bool).triu(1))
    assert 0 < links[0, 0, 1] < 1e-20


def test_mixture_equals_its_plain_twin_with_gradients():
    torch.manual_seed(3)
    scores = torch.randn(2, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    gates = torch.rand(2, 3, 5, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(2, 5, 5, dtype=torch.bool).triu(1)
    exists = allowed.any(2, keepdim=True)
    ours = _MixedSoftmax.apply(scores, gates, allowed)
    softmax = scores.masked_fill(~allowed[:, None], -1e30).softmax(3) * (allowed & exists)[:, None]
    theirs = (softmax * gates[..., None]).sum(1)
    torch.testing.assert_close(ours, theirs)
    toward = torch.randn_like(theirs)
    for mine, twin in zip(
        *(torch.autograd.grad((x * toward * allowed).sum(), (scores, gates)) for x in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, twin)


def test_links_in_use_are_those_in_training() -> None:
    torch.manual_seed(4)
    links, states, real = Links(8, 2), torch.randn(13, 8), rows(torch.tensor([7, 2, 4]))
    learnt = links(states, real)
    with torch.inference_mode():
        assert torch.equal(links(states, real), learnt)
