"""The matrix products of a training step, counted; and how fast this machine does such products when it does nothing else.

    python benchmarks/products.py float32|bfloat16 [ROWS]

prints the rate in GFLOP/s, measured by plain ``torch.mm`` of the model's own shapes.
"""

import sys
import time

from corpus import Lengths

DIM, INNER, LAYERS, VOCABULARY = 256, 1024, 3, 8000
# Outer width of each weight matrix [DIM, width] or [width, DIM], and how often a row passes it: source rows, target rows.
_WEIGHTS = (
    # query and output of self-attention: each layer of both stacks; of cross-attention: each decoder layer
    (DIM, 2 * LAYERS, 4 * LAYERS),
    # keys and values side by side; those of cross-attention are made of source rows
    (2 * DIM, 2 * LAYERS, LAYERS),
    # the two products of the feed-forward layer
    (INNER, 2 * LAYERS, 2 * LAYERS),
    # tied output projection
    (VOCABULARY, 0, 1),
)


def step_flops(lengths: Lengths, target_tokens: float) -> float:
    """Floating-point operations in the matrix products of training on ``target_tokens`` real target tokens.

    A product with a weight matrix [D, E] costs 2 D E a row. Forward, with N layers a stack, feed-forward width F:

        per source token   2 N (4 D^2 + 2 D F)  encoder  +  2 N (2 D^2)  keys and values of cross-attention
        per target token   2 N (6 D^2 + 2 D F)  decoder  +  2 D V        output projection
        per sentence pair  4 N D (S^2 + T^2 + S T)  scores and mixtures of the three attentions, over all T x T positions

    Backward costs twice as much: the gradients of both factors. Padding counts for nothing; nor do softmax, norms,
    dropout and the optimizer, which are no products.
    """
    rows = (lengths.source, lengths.target)
    weights = sum(2 * DIM * width * (rows[0] * source + rows[1] * target) for width, source, target in _WEIGHTS)
    attention = 4 * LAYERS * DIM * sum(lengths.squares)
    return 3 * (weights + attention) * target_tokens / lengths.target


def matmul_rate(precision: str, rows: int, repeats: int = 10) -> float:
    """Operations per second of the forward and both backward products of every weight matrix, weighted as the model has them.

    Each product of ``rows`` rows writes into memory that is there already, and its best time of ``repeats`` counts.
    """
    import torch

    dtype = getattr(torch, precision)
    operations = seconds = 0.0
    for width, source, target in _WEIGHTS:
        x, y = torch.randn(rows, DIM).to(dtype), torch.randn(rows, width).to(dtype)
        weight = torch.randn(width, DIM).to(dtype)
        for left, right in ((x, weight.t()), (y, weight), (y.t(), x)):
            out = left @ right
            best = min(_seconds(lambda: torch.mm(left, right, out=out)) for _ in range(repeats))  # noqa: B023
            operations += (source + target) * 2 * DIM * width * rows
            seconds += (source + target) * best
    return operations / seconds


def _seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(matmul_rate(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4096) / 1e9)
