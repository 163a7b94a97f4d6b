"""R-Drop: two dropout masks, one prediction (Liang et al. 2021)."""

from typing import Any

import torch
from torch import Tensor

from tfm_cli.transformer.loss import chunk_rows


def consistency_loss(
    states: tuple[Tensor, Tensor], weight: Tensor, target: Tensor, count: int, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor]:
    """The mean of two passes' label-smoothed cross-entropies, plus ``alpha / 4`` times their symmetric divergence.

    That is half of the paper's equation 4, so that ``alpha`` means the same and the learning rate that of plain training.
    As in `tfm_cli.transformer.loss.projection_loss` no more logits than a chunk's exist at one time.

    Args:
        states: [N, D] each, of two passes over the same tokens with different dropout.
        weight: [V, D] of the same type.
        target: [N] ids, of which the first ``count`` are real and the others PAD.

    Returns:
        The loss to differentiate, summed over targets, and the detached mean negative log-likelihood, likewise summed.
    """
    total, nll = _Consistency.apply(*states, weight, target, smoothing, alpha, count)
    return total, nll.detach()


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """``KL(p || q) + KL(q || p)`` of the softmaxes of two logits [N, V] -> [N], in float32."""
    p, q = (logits.float().log_softmax(-1) for logits in (first, second))
    return ((p.exp() - q.exp()) * (p - q)).sum(-1)


class _Consistency(torch.autograd.Function):
    """With p, q the two softmaxes, d = log p - log q and K = sum(p d), the logits' gradient of the first pass is half of that
    of the cross-entropy plus ``alpha / 4 (p (d - K) + p - q)``; that of the second is the same with p and q exchanged."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        alpha: float,
        count: int,
    ) -> tuple[Tensor, Tensor]:
        chunk, vocabulary = chunk_rows(len(weight)), len(weight)
        mean_weight = weight.float().mean(0)
        zero = torch.zeros((), device=first.device)
        nll, true_logits, apart = zero.clone(), zero.clone(), zero.clone()
        states, grads = (first, second), (torch.empty_like(first), torch.empty_like(second))
        grad_weight = torch.zeros_like(weight, dtype=torch.float32)
        for begin in range(0, len(first), chunk):
            here = [side[begin : begin + chunk] for side in states]
            real = max(0, min(len(here[0]), count - begin))
            ids = target[begin : begin + real]
            logits = [side @ weight.t() for side in here]
            p, q = (side.softmax(-1) for side in logits)
            places = torch.arange(real, device=p.device) * vocabulary + ids
            # log p - log q up to a constant of each row, which is what makes sum(p d) = KL.
            true = [side.view(-1)[places] for side in (p, q)]
            picked = [side.view(-1)[places].float() for side in logits]
            logs = [side.float().clamp_min(torch.finfo(torch.float32).tiny).log() for side in true]
            normaliser = torch.zeros(len(p), 1, device=p.device)
            normaliser[:real, 0] = (picked[0] - logs[0]) - (picked[1] - logs[1])
            d = logits[0].sub_(logits[1]).sub_(normaliser.to(p.dtype))
            pd, qd = torch.mul(p, d, out=logits[1]), d.mul_(q)
            kl_p, kl_q = pd.sum(-1, keepdim=True, dtype=torch.float32), -qd.sum(-1, keepdim=True, dtype=torch.float32)
            nll -= (logs[0].sum() + logs[1].sum()) / 2
            true_logits += (picked[0].sum() + picked[1].sum()) / 2
            apart += (kl_p + kl_q)[:real].sum()
            share = alpha / 4
            # The small differences first: bfloat16 has no room for them beside the probabilities.
            gradients = (
                torch.sub(p, q).addcmul_(p, (-kl_p).to(p.dtype)).add_(pd).mul_(share).add_(p, alpha=0.5),
                torch.sub(q, p).addcmul_(q, (-kl_q).to(q.dtype)).sub_(qd).mul_(share).add_(q, alpha=0.5),
            )
            for side, gradient, out in zip(here, gradients, grads, strict=True):
                gradient.view(-1)[places] -= (1 - smoothing) / 2
                gradient[real:] = 0
                torch.mm(gradient, weight, out=out[begin : begin + chunk])
                grad_weight += gradient.t() @ side
        total = first[:count].float().sum(0) + second[:count].float().sum(0)
        for side in grads:
            side[:count] -= (smoothing / 2 * mean_weight).to(weight.dtype)
        grad_weight -= smoothing / 2 / vocabulary * total
        ctx.save_for_backward(*grads, grad_weight.to(weight.dtype))
        uniform = nll + true_logits - total @ mean_weight / 2
        return (1 - smoothing) * nll + smoothing * uniform + alpha / 4 * apart, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weight = ctx.saved_tensors
        scale = grads[0].to(first.dtype)
        return first * scale, second * scale, weight * scale, None, None, None, None
