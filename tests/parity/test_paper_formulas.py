"""The blocks against the paper's formulas, written out again with plain Python loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.transformer.attention import MultiHeadAttention, causal_mask
from tfm_cli.transformer.layers import FeedForward, Residual
from tfm_cli.transformer.positions import rotate, sinusoids
from tfm_cli.transformer.shape import Shape


def loop_linear(layer, vector):
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [sum(w * x for w, x in zip(row, vector, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def loop_attention(module, x, memory, visible):
    """Section 3.2.2 for one sentence: x [T][D], memory [S][D]; ``visible(i, j)`` says whether query i sees key j."""
    dim = len(x[0])
    width = dim // module.heads
    queries = [loop_linear(module.query, v) for v in x]
    both = [loop_linear(module.key_value, v) for v in memory]
    answer = []
    for i, query in enumerate(queries):
        concatenated = []
        for head in range(module.heads):
            part = slice(head * width, (head + 1) * width)
            seen = [j for j in range(len(memory)) if visible(i, j)]
            energies = [
                sum(q * k for q, k in zip(query[part], both[j][:dim][part], strict=True)) / math.sqrt(width)
                for j in seen
            ]
            top = max(energies)
            weights = [math.exp(e - top) for e in energies]
            for d in range(width):
                value = sum(w * both[j][dim:][part][d] for w, j in zip(weights, seen, strict=True))
                concatenated.append(value / sum(weights))
        answer.append(loop_linear(module.output, concatenated))
    return answer


@pytest.fixture
def attention():
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def test_self_attention_is_the_papers(attention):
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    naive = [loop_attention(attention, rows, rows, lambda i, j: True) for rows in x.tolist()]
    torch.testing.assert_close(attention(x, x), torch.tensor(naive, dtype=torch.float64))


def test_causal_attention_sees_no_later_position(attention):
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    naive = [loop_attention(attention, rows, rows, lambda i, j: j <= i) for rows in x.tolist()]
    expected = torch.tensor(naive, dtype=torch.float64)
    torch.testing.assert_close(attention(x, x, causal=True), expected)
    torch.testing.assert_close(attention(x, x, mask=causal_mask(5)), expected)


def test_cross_attention_sees_no_padding(attention):
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
    lengths = [6, 2]
    mask = torch.tensor([[j < n for j in range(6)] for n in lengths])[:, None, None, :]
    naive = [
        loop_attention(attention, a, b, lambda i, j, n=n: j < n)
        for a, b, n in zip(x.tolist(), memory.tolist(), lengths, strict=True)
    ]
    torch.testing.assert_close(attention(x, memory, mask), torch.tensor(naive, dtype=torch.float64))


def test_long_sentences_take_the_fused_kernel_and_agree(attention, monkeypatch):
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    mask = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])[:, None, None, :]
    plain = attention(x, x, causal=True), attention(x, x, mask)
    monkeypatch.setattr("tfm_cli.transformer.attention.FUSED_FROM", 0)
    torch.testing.assert_close(attention(x, x, causal=True), plain[0])
    torch.testing.assert_close(attention(x, x, mask), plain[1])


def test_sinusoids_are_the_formula():
    table = sinusoids(50, 16)
    for position in range(50):
        for i in range(8):
            angle = position / 10000 ** (2 * i / 16)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    torch.testing.assert_close(sinusoids(10, 16, start=40), table[40:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 2000), st.integers(0, 2**31))
def test_rotary_products_depend_on_distance_alone(at, other, shift, seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 16, dtype=torch.float64, generator=generator)
    here = rotate(query, at) @ rotate(key, other).T
    there = rotate(query, at + shift) @ rotate(key, other + shift).T
    torch.testing.assert_close(here, there, atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(rotate(query, at).norm(), query.norm(), atol=1e-4, rtol=1e-4)


def test_rotary_turns_each_pair_by_its_own_rate():
    x = torch.randn(3, 8, dtype=torch.float64)
    turned = rotate(x, start=4)
    for t in range(3):
        for i in range(4):
            angle = (t + 4) / 10000 ** (2 * i / 8)
            a, b = x[t, i].item(), x[t, i + 4].item()
            assert turned[t, i].item() == pytest.approx(a * math.cos(angle) - b * math.sin(angle), abs=1e-5)
            assert turned[t, i + 4].item() == pytest.approx(a * math.sin(angle) + b * math.cos(angle), abs=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_is_equation_2(activation):
    torch.manual_seed(2)
    module = FeedForward(Shape(dim=4, ffn_dim=6, heads=2, activation=activation)).double().eval()
    vector = [0.5, -1.0, 2.0, 0.1]
    inner = loop_linear(module.inner, vector)
    gate = {"relu": lambda v: max(0.0, v), "gelu": lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2)))}[activation]
    expected = loop_linear(module.outer, [gate(v) for v in inner])
    assert module(torch.tensor(vector, dtype=torch.float64)).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_and_layer_norm(norm):
    module = Residual(Shape(dim=4, ffn_dim=6, heads=2, norm=norm)).double().eval()
    x = torch.tensor([1.0, 2.0, -3.0, 0.5], dtype=torch.float64)

    def normalised(v):
        return (v - v.mean()) / (v.var(unbiased=False) + 1e-5).sqrt()

    expected = x + 2 * normalised(x) if norm == "pre" else normalised(x + 2 * x)
    torch.testing.assert_close(module(x, lambda h: 2 * h), expected)
