"""Weights in one flat float32 array, the optimizer over it, and the learning rate's course (section 5.3)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tfm_cli.errors import TfmError
from tfm_cli.training.muon import Muon, hidden_matrices
from tfm_cli.training.options import LearningOptions


def learning_rate(step: int, progress: float, options: LearningOptions) -> float:
    """The rate of update ``step`` (from 1).

    Linear warm-up, and after it ``peak * sqrt(warmup / step)`` (equation 3, stated by its peak). The other schedules fall from
    the peak to zero along a cosine or a line as ``progress`` goes from 0 to 1, warm-up multiplying the first steps.
    """
    warmup = max(options.warmup_steps, 1)
    rate = options.learning_rate * min(1.0, step / warmup)
    if options.schedule == "inverse-sqrt":
        return rate * math.sqrt(warmup / max(step, warmup))
    if options.schedule == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    if options.schedule == "linear":
        return rate * max(0.0, 1 - progress)
    return rate


class FlatWeights:
    """A module's parameters as consecutive views of one array, so that an update, a norm or an average is one pass.

    A tied parameter stands once, under its first name; those named in ``first`` stand before all others.
    """

    def __init__(self, module: nn.Module, first: Sequence[str] = ()) -> None:
        self.module, self.first = module, first
        named = sorted(module.named_parameters(), key=lambda parameter: parameter[0] not in first)
        self.names = [name for name, _ in named]
        self.parameters: list[nn.Parameter] = [parameter for _, parameter in named]
        self.flat = torch.cat([p.detach().flatten().float() for p in self.parameters])

    def views(self, flat: Tensor) -> list[Tensor]:
        """``flat`` cut into the parameters' shapes."""
        sizes = [p.numel() for p in self.parameters]
        return [piece.view(p.shape) for piece, p in zip(flat.split(sizes), self.parameters, strict=True)]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """``flat`` as named CPU tensors that may be saved."""
        return dict(zip(self.names, (view.clone() for view in self.views(flat.cpu())), strict=True))

    def bind(self, flat: Tensor) -> None:
        """Make the module's parameters views of ``flat``, in its float type."""
        for parameter, view in zip(self.parameters, self.views(flat), strict=True):
            parameter.data = view


class MixedPrecisionOptimizer:
    """Adam (Kingma and Ba 2015; decoupled decay of Loshchilov and Hutter 2019) over float32 master weights, or Muon for the
    matrices of the layers and Adam for all else.

    The module computes in ``dtype``: its parameters are views of ``working``, a copy of the master rounded after each
    update (the master itself in float32). Gradients of micro-batches are added up in float32.
    """

    def __init__(self, module: nn.Module, options: LearningOptions, dtype: torch.dtype = torch.float32) -> None:
        self.options = options
        matrices = hidden_matrices(module) if options.optimizer == "muon" else {}
        self.weights = FlatWeights(module, tuple(matrices))
        self.master = self.weights.flat
        self.working = self.master if dtype == torch.float32 else self.master.to(dtype)
        self.weights.bind(self.working)
        self.gradient = torch.zeros_like(self.master)
        self._gradient_views = self.weights.views(self.gradient)
        self._fresh = True
        self.muon, by_muon = None, 0
        if matrices:
            shapes = [
                (parameter.shape[0] // matrices[name], parameter.shape[1])
                for name, parameter in zip(self.weights.names, self.weights.parameters, strict=True)
                for _ in range(matrices.get(name, 0))
            ]
            by_muon = sum(rows * columns for rows, columns in shapes)
            head = slice(by_muon)
            self.muon = Muon(self.master[head], self.gradient[head], shapes, dtype, options.weight_decay)
        self._rest = nn.Parameter(self.master[by_muon:])
        self._rest.grad = self.gradient[by_muon:]
        self.adam = torch.optim.AdamW(
            [self._rest],
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
            eps=1e-9,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.average = self.master.clone() if options.ema else self.master
        self.updates = 0

    @property
    def bytes_of_updates(self) -> int:
        """Memory that is taken from the first update on: Adam's two moments, and what Muon's products need meanwhile."""
        return 8 * self._rest.numel() + (self.muon.bytes_of_products if self.muon else 0)

    def collect(self) -> None:
        """Move the parameters' gradients, just computed by backward, into the float32 sum."""
        views = [v for v, p in zip(self._gradient_views, self.weights.parameters, strict=True) if p.grad is not None]
        grads = [p.grad for p in self.weights.parameters if p.grad is not None]
        if self._fresh:
            if len(views) < len(self._gradient_views):
                self.gradient.zero_()
            torch._foreach_copy_(views, grads)
        else:
            torch._foreach_add_(views, [grad.float() for grad in grads])
        self._fresh = False
        for parameter in self.weights.parameters:
            parameter.grad = None

    def update(self, rate: float, scale: float) -> float:
        """One update with the collected gradient times ``scale``, clipped. Returns its norm before clipping.

        A norm that is not finite leaves everything as it was: the caller counts the skipped step.
        """
        norm = float(torch.linalg.vector_norm(self.gradient)) * scale
        self._fresh = True
        if not math.isfinite(norm):
            return norm
        clip = self.options.clip_norm
        self.gradient *= scale * (clip / norm if clip and norm > clip else 1.0)
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        if self.muon:
            self.muon.step(rate)
        if self.working.dtype != torch.float32:
            self.working.copy_(self.master)
        self.updates += 1
        if self.options.ema:
            # Early on a long average would hang on to random weights, so it starts short.
            decay = min(self.options.ema, (1 + self.updates) / (10 + self.updates))
            self.average.lerp_(self.master, 1 - decay)
        return norm

    def state(self) -> dict[str, Tensor]:
        """All that the next update depends on, as CPU tensors."""
        moments = self.adam.state[self._rest]
        state = {"master": self.master, "average": self.average}
        state |= {name: moments[name] for name in ("exp_avg", "exp_avg_sq", "step") if name in moments}
        if self.muon:
            state["momentum"] = self.muon.momentum
        return {name: tensor.cpu().clone() for name, tensor in state.items()}

    def load(self, state: dict[str, Tensor], updates: int) -> None:
        """Take up a saved `state`.

        Raises:
            TfmError: it is another optimizer's.
        """
        if (self.muon is not None) != ("momentum" in state):
            raise TfmError("the run was begun with another optimizer", where="--optimizer", fix="Name that one.")
        self.master.copy_(state["master"])
        if self.options.ema:
            self.average.copy_(state["average"])
        if self.working.dtype != torch.float32:
            self.working.copy_(self.master)
        if self.muon:
            self.muon.momentum.copy_(state["momentum"])
        if "exp_avg" in state:
            device = self.master.device
            self.adam.state[self._rest] = {
                "step": state["step"].clone().to(device),
                "exp_avg": state["exp_avg"].to(device),
                "exp_avg_sq": state["exp_avg_sq"].to(device),
            }
        self.updates = updates
