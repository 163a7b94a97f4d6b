"""Cross-entropy with label smoothing (section 5.4)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.transformer.special import PAD

_ROWS = 128  # the number of rows in a product is a multiple of this


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
    """The loss and its gradient in one visit to the logits, a chunk of positions at a time.

    With ``p`` the softmax, the gradient of the logits is ``p - (1 - e) onehot - e / V``. Only p is as wide as the vocabulary;
    the two constant terms reach states and weight through sums and single rows, without a pass over N x V of their own.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        states: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        share = smoothing / weight.shape[0]
        mean_weight = weight.float().mean(0)
        count = len(states)
        # Rows of zeros fill up the last chunk: they add nothing to the weight's gradient, and products have few shapes.
        states = F.pad(states, (0, 0, 0, -count % _ROWS))
        nll, true_logits = torch.zeros((), device=states.device), torch.zeros((), device=states.device)
        grad_states = torch.empty_like(states)
        grad_weight = torch.zeros_like(weight, dtype=torch.float32)
        for begin in range(0, len(states), chunk):
            here, ids = states[begin : begin + chunk], target[begin : begin + chunk, None]
            logits = here @ weight.t()
            true_logit = logits[: len(ids)].gather(1, ids).float()
            highest = logits.amax(-1, keepdim=True)
            probabilities = logits.softmax(-1)
            # The largest probability is 1 / sum(exp(logit - highest)), which gives the normaliser without another pass.
            normaliser = highest.float() - probabilities.amax(-1, keepdim=True).float().log()
            nll += (normaliser[: len(ids)] - true_logit).sum()
            true_logits += true_logit.sum()
            torch.mm(probabilities, weight, out=grad_states[begin : begin + chunk])
            grad_weight += probabilities.t() @ here
        states, grad_states = states[:count], grad_states[:count]
        grad_states -= (1 - smoothing) * weight[target] + (smoothing * mean_weight).to(weight.dtype)
        grad_weight.index_add_(0, target, states.float(), alpha=smoothing - 1)
        grad_weight -= share * states.float().sum(0)
        ctx.save_for_backward(grad_states, grad_weight.to(weight.dtype))
        # The uniform part of the loss sums (log-normaliser - mean logit) over the positions.
        uniform = nll + true_logits - (states.float() @ mean_weight).sum()
        return (1 - smoothing) * nll + smoothing * uniform, nll

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
    if not torch.is_grad_enabled():
        parts = zip(states.split(chunk), target.split(chunk), strict=True)
        sums = [torch.stack(label_smoothed(here @ weight.t(), ids, smoothing)) for here, ids in parts]
        total, nll = torch.stack(sums).sum(0) if sums else torch.zeros(2, device=states.device)
        return total, nll
    total, nll = _FusedProjectionLoss.apply(states, weight, target, smoothing, chunk)
    return total, nll.detach()
