"""Two ways to the same number: cached steps and the full forward pass, padded and single sentences."""

import itertools

import pytest
import torch

from tfm_cli.transformer.batch import pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, END

VOCAB = 23
SHAPES = list(itertools.product(("sinusoidal", "learned", "rotary"), ("pre", "post"), ("all", "decoder", "none")))


def network(positions="sinusoidal", norm="pre", tie="all", activation="relu"):
    torch.manual_seed(3)
    shape = Shape(
        dim=16,
        ffn_dim=24,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        positions=positions,
        norm=norm,
        tie=tie,
        max_positions=12,
        activation=activation,
    )
    return Transformer(shape, VOCAB, VOCAB).eval()


def sentences(*lengths):
    generator = torch.Generator().manual_seed(4)
    return [[*torch.randint(5, VOCAB, (n - 1,), generator=generator).tolist(), END] for n in lengths]


@pytest.mark.parametrize(("positions", "norm", "tie"), SHAPES)
def test_cached_steps_equal_the_full_forward_pass(positions, norm, tie):
    model = network(positions, norm, tie)
    source = pad(sentences(6, 3, 9))
    # 20 steps: more than the cache's first room of 16, and than the 12 learned positions.
    target = torch.cat((torch.full((3, 1), BEGIN), torch.randint(5, VOCAB, (3, 19))), 1)
    with torch.no_grad():
        memory = model.encode(source)
        full = model.logits(model.decode(target, memory, causal=True))
        cache = model.start(memory)
        steps = torch.stack([model.step(ids, cache) for ids in target.unbind(1)], 1)
    torch.testing.assert_close(steps, full, atol=1e-5, rtol=1e-5)
    assert full.std() > 0.01


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_padding_changes_nothing(positions):
    model = network(positions)
    sources, targets = sentences(4, 11, 7), sentences(5, 2, 8)
    with torch.no_grad():
        together = model.decode(pad(targets), model.encode(pad(sources)), causal=True)
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            alone = model.decode(pad([target]), model.encode(pad([source])), causal=True)
            torch.testing.assert_close(together[i, : len(target)], alone[0], atol=1e-5, rtol=1e-5)


def test_reorder_moves_and_widens_and_drops():
    model = network()
    sources = sentences(4, 7, 5)
    histories = {0: [BEGIN, 7, 9], 1: [BEGIN, 8, 11], 2: [BEGIN, 6, 13]}
    with torch.no_grad():
        cache = model.start(model.encode(pad(sources)))
        model.step(torch.full((3,), BEGIN), cache)
        cache.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
        second = torch.tensor([7, 20, 21, 8, 6, 22])
        model.step(second, cache)
        # Sentence 0 leaves; of sentence 1 its second beam stays twice, of sentence 2 its first.
        cache.reorder(torch.tensor([3, 3, 4, 4]), torch.tensor([1, 2]))
        logits = model.step(torch.tensor([11, 11, 13, 13]), cache)
        for row, sentence in enumerate((1, 1, 2, 2)):
            memory = model.encode(pad([sources[sentence]]))
            alone = model.logits(model.decode(torch.tensor([histories[sentence]]), memory, causal=True))
            torch.testing.assert_close(logits[row], alone[0, -1], atol=1e-5, rtol=1e-5)


def test_rows_that_stay_are_not_copied():
    model = network()
    with torch.no_grad():
        cache = model.start(model.encode(pad(sentences(4, 7))))
        model.step(torch.full((2,), BEGIN), cache)
        before = cache.layers[0].key
        cache.reorder(torch.tensor([0, 1]))
        assert cache.layers[0].key is before
        cache.reorder(torch.tensor([1, 0]))
        torch.testing.assert_close(cache.layers[0].key[:, :, :1], before[[1, 0], :, :1])


def test_decoder_without_causality_sees_to_the_right():
    model = network()
    memory = model.encode(pad(sentences(5)))
    one, other = torch.tensor([[7, 8, 9]]), torch.tensor([[7, 8, 12]])
    with torch.no_grad():
        causal = [model.decode(t, memory, causal=True)[0, 0] for t in (one, other)]
        free = [model.decode(t, memory, causal=False)[0, 0] for t in (one, other)]
    assert torch.equal(*causal)
    assert not torch.allclose(*free)
