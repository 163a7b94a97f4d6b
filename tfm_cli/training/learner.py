"""What learns: the network in training, its moving average and their optimizer, without a loop, a clock or a file."""

import copy

import torch
from torch import Tensor

from tfm_cli.model import Model
from tfm_cli.training.checkpoint import random_state, restore_random_state
from tfm_cli.training.distributed import World
from tfm_cli.training.memory import is_out_of_memory
from tfm_cli.training.optim import FlatWeights, MixedPrecisionOptimizer
from tfm_cli.training.options import LearningOptions
from tfm_cli.transformer.batch import Batch, LossReport


class Learner:
    """``family`` is trained in ``dtype`` on ``device``; ``averaged`` computes with the average of its weights, in float32.

    Batches whose step does not fit into memory are learnt in halves. ``halved`` counts them, and ``unfit`` counts the
    sentences that do not even fit alone and are left out. Lengths are padded to a ``multiple``.
    """

    def __init__(self, model: Model, options: LearningOptions, device: torch.device, dtype: torch.dtype) -> None:
        self.model, self.device, self.dtype = model, device, dtype
        self.family = model.family.to(device)
        self.averaged = copy.deepcopy(self.family).eval()
        self.optimizer = MixedPrecisionOptimizer(self.family, options, dtype)
        self.family.to(dtype=dtype).train()
        FlatWeights(self.averaged, self.optimizer.weights.first).bind(self.optimizer.average)
        # oneDNN compiles a kernel for every new shape of a bfloat16 product, which costs more than the product.
        self.multiple = 2 if dtype == torch.bfloat16 else 1
        self.halved = self.unfit = 0
        self._empty = True

    @property
    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by name, on the CPU."""
        return self.optimizer.weights.named(self.optimizer.average)

    def learn(self, batch: Batch, progress: float) -> LossReport:
        """Add the gradient of a batch to that of the update; what is reported is detached."""
        whole = self._attempt(batch, progress)
        if whole is not None:
            return whole
        self.halved += 1
        return self._learn_in_halves(batch, progress)

    def _learn_in_halves(self, batch: Batch, progress: float) -> LossReport:
        """Learn a batch that is too large, by halves of its sentences; what one half has added is never added again."""
        self._free()
        if len(batch.source) == 1:
            self.unfit += 1
            zero = torch.zeros((), device=self.device)
            return LossReport(zero, 0, {"nll": zero})
        middle = len(batch.source) // 2
        reports = []
        for rows in (slice(middle), slice(middle, None)):
            half = Batch(batch.source[rows].cpu(), batch.target[rows].cpu()).packed().to(self.device)
            reports.append(self._attempt(half, progress) or self._learn_in_halves(half, progress))
        first, second = reports
        zero = torch.zeros((), device=self.device)
        parts = {k: first.parts.get(k, zero) + second.parts.get(k, zero) for k in first.parts | second.parts}
        return LossReport(first.sum + second.sum, first.count + second.count, parts)

    def _attempt(self, batch: Batch, progress: float) -> LossReport | None:
        """Learn a batch; None, and nothing added, where memory does not suffice."""
        try:
            report: LossReport = self.family(batch, progress)
            report.sum.backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None  # with the error goes its traceback, which holds what the step had computed
        self.optimizer.collect()
        self._empty = False
        return LossReport(report.sum.detach(), report.count, {k: v.detach() for k, v in report.parts.items()})

    def rehearse(self, batch: Batch) -> None:
        """Forward and backward without a trace: no gradient is kept, and random states are as before."""
        states = random_state(self.device)
        try:
            self.family(batch, 0.0).sum.backward()
        finally:
            restore_random_state(states, self.device)
            self._free()

    def _free(self) -> None:
        for parameter in self.optimizer.weights.parameters:
            parameter.grad = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def update(self, rate: float, tokens: int, world: World) -> float:
        """One update from the gradients of all ranks, whose losses are sums over ``tokens``; the gradient's norm."""
        if self._empty:  # a rank without a batch adds nothing
            self.optimizer.gradient.zero_()
        self._empty = True
        world.add_up(self.optimizer.gradient)
        return self.optimizer.update(rate, 1 / max(tokens, 1))
