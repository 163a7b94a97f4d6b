"""Muon: the matrices of a network move by the orthogonal part of their momentum (Jordan et al. 2024)."""

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tfm_cli.transformer.attention import StackedLinear

MOMENTUM = 0.95
# With it an update has about the size of one of Adam's, so that one learning rate serves both (Liu et al. 2025, equation 4).
ADAM_SIZE = 0.2

# Each step of x -> a x + b (x x^T) x + c (x x^T)^2 x brings singular values between 0.001 and 1 nearest to 1, given the steps
# before it (Polar Express: Amsel et al. 2025, algorithm 1). Training gains nothing by more than these three.
POLAR_STEPS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
)


def orthogonalise(matrices: Tensor) -> Tensor:
    """About ``U V^T`` for each ``U S V^T`` of matrices [N, R, C], R <= C, by products alone.

    Singular values from a thousandth of the matrix's norm upwards come out between 0.1 and 1.9; smaller ones grow 130-fold.
    """
    norms = torch.linalg.matrix_norm(matrices, keepdim=True)
    x = matrices / (1.01 * norms + 1e-7).to(matrices.dtype)
    for a, b, c in POLAR_STEPS:
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def hidden_matrices(module: nn.Module) -> dict[str, int]:
    """The weights that Muon is meant for, by name: those of linear maps within a stack of layers, each with the number of maps
    that stand one above another in it. Embeddings and classifiers, whose rows are words, are none."""
    return {
        f"{name}.weight": part.maps if isinstance(part, StackedLinear) else 1
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear) and ".layers." in f".{name}"
    }


class Muon:
    """Muon with Nesterov's momentum over ``weights``, one array that holds matrices of these ``shapes`` one after another.

    ``gradient`` is of the same form; products are in ``dtype``. What the next update depends on, besides: ``momentum``.
    """

    def __init__(
        self, weights: Tensor, gradient: Tensor, shapes: Sequence[tuple[int, int]], dtype: torch.dtype, decay: float
    ) -> None:
        self.weights, self.gradient, self.dtype, self.decay = weights, gradient, dtype, decay
        self.momentum = torch.zeros_like(weights)
        self.direction = torch.zeros_like(weights)
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        sizes = [rows * columns for rows, columns in shapes]
        for shape, *pieces in zip(shapes, self.direction.split(sizes), weights.split(sizes), strict=True):
            direction, weight = (_wide(piece.view(shape)) for piece in pieces)
            alike[direction.shape[0], direction.shape[1]].append((direction, weight))
        self._alike = dict(alike)

    @property
    def bytes_of_products(self) -> int:
        """Memory of a step while it lasts: about four arrays as large as all matrices of one shape."""
        return max(16 * len(pairs) * pairs[0][0].numel() for pairs in self._alike.values())

    def step(self, rate: float) -> None:
        """One update from the gradient."""
        self.momentum.lerp_(self.gradient, 1 - MOMENTUM)
        torch.lerp(self.gradient, self.momentum, MOMENTUM, out=self.direction)
        if self.decay:
            self.weights.mul_(1 - rate * self.decay)
        for (_, longer), pairs in self._alike.items():
            directions = torch.stack([direction for direction, _ in pairs]).to(self.dtype)
            moves = list(orthogonalise(directions).float().unbind())
            torch._foreach_add_([weight for _, weight in pairs], moves, alpha=-rate * ADAM_SIZE * math.sqrt(longer))


def _wide(matrix: Tensor) -> Tensor:
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
