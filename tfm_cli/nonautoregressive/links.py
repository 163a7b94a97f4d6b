"""The probabilities of going from one vertex of a graph to a later one (Huang et al. 2022)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.nonautoregressive.family import packing_of
from tfm_cli.transformer.packing import to_heads
from tfm_cli.transformer.positions import sinusoids

_FLOOR = 1e-30  # of a link, so that a sum over paths is never 0
_NEVER = -1e30


class Links(nn.Module):
    """Attention of each vertex to those after it, in several heads between which the vertex chooses.

    ``E_ij = sum_c g_ic softmax_j(q_ic . k_jc / sqrt(K))`` over i < j < V, in float32. Queries and keys see the decoder's state
    and the vertex's position.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        self.query, self.key = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)
        self.gate = nn.Linear(dim, heads)
        for layer in (self.query, self.key, self.gate):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """States [N, D] at the ``real`` [B, L] vertices, in reading order -> [B, L, L] float32, 0 unless i < j < V."""
        packing, length = packing_of(real), real.shape[1]
        x = F.pad(states, (0, 0, 0, len(packing.cells) - len(states)))
        seen = torch.cat((x, sinusoids(length, self.dim).to(x)[packing.positions]), 1)
        query, key = (to_heads(layer(seen), self.heads, packing, torch.float32) for layer in (self.query, self.key))
        gates = to_heads(self.gate(x), self.heads, packing, torch.float32)[..., 0].softmax(1)
        vertex = torch.arange(length, device=states.device)
        allowed = (vertex[:, None] < vertex) & real[:, None] & real[:, :, None]
        scores = (query * query.shape[3] ** -0.5) @ key.transpose(2, 3)
        links: Tensor = _MixedSoftmax.apply(scores, gates, allowed)
        return links


class _MixedSoftmax(torch.autograd.Function):
    """``sum_c g_c softmax(scores_c)`` where ``allowed`` [B, L, L]: scores [B, H, L, L], gates [B, H, L] -> [B, L, L].

    Holds one table for each head, which the scores give up, where plain operations would hold three; in use, not one: the
    scores are overwritten.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gates: Tensor, allowed: Tensor) -> Tensor:
        forbidden = ~allowed
        mixed = torch.zeros_like(scores[:, 0])
        softmax = torch.empty_like(scores) if any(ctx.needs_input_grad[:2]) else scores
        for head in range(scores.shape[1]):
            torch.softmax(scores[:, head].masked_fill(forbidden, _NEVER), 2, out=softmax[:, head])
            mixed.addcmul_(softmax[:, head], gates[:, head, :, None])
        ctx.save_for_backward(softmax, gates)
        return mixed.clamp_(min=_FLOOR).masked_fill_(forbidden, 0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        softmax, gates = ctx.saved_tensors
        of_scores, of_gates = torch.empty_like(softmax), torch.empty_like(gates)
        for head in range(softmax.shape[1]):
            p, gate, here = softmax[:, head], gates[:, head, :, None], of_scores[:, head]
            torch.mul(p, grads[0], out=here)
            mean = here.sum(2, keepdim=True)
            of_gates[:, head] = mean[..., 0]
            here.addcmul_(p, mean, value=-1).mul_(gate)
        return of_scores, of_gates, None
