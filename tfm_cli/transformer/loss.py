"""Cross-entropy with label smoothing (section 5.4)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.transformer.special import PAD


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


class _FusedProjectionLoss(torch.autograd.Function):
    """The loss and its gradient in one pass over the logits, a chunk of positions at a time."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        states: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = states.requires_grad or weight.requires_grad
        vocab = weight.shape[0]
        total, nll = torch.zeros((), device=states.device), torch.zeros((), device=states.device)
        grad_states = torch.empty_like(states) if needs_gradient else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_gradient else None
        for begin in range(0, len(states), chunk):
            here, ids = states[begin : begin + chunk], target[begin : begin + chunk, None]
            logits = (here @ weight.t()).float()
            normaliser = logits.logsumexp(-1, keepdim=True)
            true_nll = normaliser - logits.gather(1, ids)
            uniform = normaliser - logits.mean(-1, keepdim=True) if smoothing else torch.zeros_like(true_nll)
            nll += true_nll.sum()
            total += ((1 - smoothing) * true_nll + smoothing * uniform).sum()
            if grad_states is not None and grad_weight is not None:
                # d loss / d logits = softmax - target distribution
                gradient = logits.sub_(normaliser).exp_()
                if smoothing:
                    gradient.sub_(smoothing / vocab)
                gradient.scatter_add_(1, ids, torch.full_like(true_nll, smoothing - 1))
                narrow = gradient.to(states.dtype)
                torch.mm(narrow, weight, out=grad_states[begin : begin + chunk])
                grad_weight += narrow.t() @ here
        if grad_states is not None and grad_weight is not None:
            ctx.save_for_backward(grad_states, grad_weight.to(weight.dtype))
        return total, nll

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_states, grad_weight = ctx.saved_tensors  # type: ignore[attr-defined]
        scale = grads[0]
        return grad_states * scale.to(grad_states.dtype), grad_weight * scale.to(grad_weight.dtype), None, None, None


def projection_loss(
    states: Tensor, weight: Tensor, target: Tensor, smoothing: float, chunk: int = 512
) -> tuple[Tensor, Tensor]:
    """`label_smoothed` of ``states @ weight.T`` without ever holding all logits; PAD positions cost nothing.

    Args:
        states: [N, D], any float type.
        weight: [V, D] of the same type.
        target: [N] ids.
        chunk: positions whose logits exist at one time.
    """
    real = (target != PAD).nonzero().squeeze(1)
    if len(real) < len(target):
        states, target = states[real], target[real]
    total, nll = _FusedProjectionLoss.apply(states, weight, target, smoothing, chunk)
    return total, nll.detach()
