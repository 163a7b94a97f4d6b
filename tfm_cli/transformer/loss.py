"""Cross-entropy with label smoothing (section 5.4)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.transformer.packing import ROWS, whole_rows
from tfm_cli.transformer.special import PAD

_LOGITS = 1 << 23  # that exist at one time


def label_smoothed(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Summed label-smoothed cross-entropy and summed negative log-likelihood, PAD left out.

    With ``e`` = smoothing the target distribution is ``1 - e`` on the true token plus ``e / V`` on every token
    (Szegedy et al. 2016, equation 3 onward).

    Args:
        logits: [N, V]; the sums are formed in float32.
        target: [N] ids.

    Returns:
        The loss to differentiate and the detached negative log-likelihood, two scalars in nats.
    """
    log_probs = logits.float().log_softmax(-1)
    nll = F.nll_loss(log_probs, target, ignore_index=PAD, reduction="sum")
    if smoothing == 0:
        return nll, nll.detach()
    uniform = -log_probs.mean(-1).masked_fill(target == PAD, 0.0).sum()
    return (1 - smoothing) * nll + smoothing * uniform, nll.detach()


def chunk_rows(vocabulary: int) -> int:
    """How many positions' logits may exist at one time."""
    return max(1, _LOGITS // vocabulary // ROWS) * ROWS


class _FusedProjectionLoss(torch.autograd.Function):
    """The loss and its gradient in one visit to the logits, a chunk of positions at a time.

    With ``p`` the softmax, the gradient of the logits is ``p - (1 - e) onehot - e / V``. The last term reaches states and
    weight through sums, without a pass over N x V of its own. The first ``count`` rows count; the others get no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, target: Tensor, smoothing: float, chunk: int, count: int
    ) -> tuple[Tensor, Tensor]:
        mean_weight = weight.float().mean(0)
        nll, true_logits = torch.zeros((), device=states.device), torch.zeros((), device=states.device)
        grad_states = torch.empty_like(states)
        grad_weight = torch.zeros_like(weight, dtype=torch.float32)
        logits, probabilities = (states.new_empty(min(chunk, len(states)), len(weight)) for _ in range(2))
        for begin in range(0, len(states), chunk):
            here = states[begin : begin + chunk]
            real = max(0, min(len(here), count - begin))
            ids = target[begin : begin + real, None]
            z, p = logits[: len(here)], probabilities[: len(here)]
            torch.mm(here, weight.t(), out=z)
            torch.softmax(z, -1, out=p)
            true = p[:real].gather(1, ids)
            # A probability that underflows counts as the smallest there is: its gradient is the same.
            nll -= true.float().clamp_min(torch.finfo(torch.float32).tiny).log().sum()
            true_logits += z[:real].gather(1, ids).float().sum()
            p.view(-1)[torch.arange(real, device=p.device) * len(weight) + ids[:, 0]] = true[:, 0] - (1 - smoothing)
            p[real:] = 0
            torch.mm(p, weight, out=grad_states[begin : begin + chunk])
            grad_weight += p.t() @ here
        total = states[:count].float().sum(0)
        grad_states[:count] -= (smoothing * mean_weight).to(weight.dtype)
        grad_weight -= smoothing / len(weight) * total
        ctx.save_for_backward(grad_states, grad_weight.to(weight.dtype))
        # The uniform part of the loss sums (log-normaliser - mean logit) over the positions.
        uniform = nll + true_logits - total @ mean_weight
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        grad_states, grad_weight = ctx.saved_tensors
        scale = grads[0].to(grad_states.dtype)
        return grad_states * scale, grad_weight * scale, None, None, None, None


def projection_loss(
    states: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    chunk: int | None = None,
    count: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`label_smoothed` of ``states @ weight.T`` without ever holding all logits; PAD positions cost nothing.

    Args:
        states: [N, D], any float type.
        weight: [V, D] of the same type.
        target: [N] ids.
        chunk: positions whose logits exist at one time.
        count: given, only the first ``count`` rows have a target, and the others are PAD; N then has few values.
    """
    if count is None:
        real = (target != PAD).nonzero().squeeze(1)
        count = len(real)
        if count < len(target):
            states, target = states[real], target[real]
        states = whole_rows(states)
    chunk = chunk or chunk_rows(len(weight))
    if not torch.is_grad_enabled():
        parts = zip(states[:count].split(chunk), target[:count].split(chunk), strict=True)
        sums = [torch.stack(label_smoothed(here @ weight.t(), ids, smoothing)) for here, ids in parts]
        total, nll = torch.stack(sums).sum(0) if sums else torch.zeros(2, device=states.device)
        return total, nll
    total, nll = _FusedProjectionLoss.apply(states, weight, target, smoothing, chunk, count)
    return total, nll.detach()
