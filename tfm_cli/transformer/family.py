"""What the training loop and the translator know of a model: it has a loss, it decodes, it scores."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport
from tfm_cli.transformer.network import Transformer


class Family(nn.Module):
    """One way to write a sentence: a network, a loss to train it and a search to use it.

    The loop calls `loss` (through ``forward``, so that wrappers for several machines see it), the translator `decode` and
    `score`; nothing else tells families apart.
    """

    default_options: ClassVar[Any]
    """How it decodes where nobody says otherwise."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    @abstractmethod
    def loss(self, batch: Batch, progress: float) -> LossReport:
        """The summed loss of a batch; ``progress`` in [0, 1] is the share of the training that has passed."""

    @abstractmethod
    def decode(
        self,
        source: Tensor,
        options: Any,
        prefix: list[list[int]] | None = None,
        lines: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate ids [B, S] (END at each row's end): per sentence its hypotheses, best first.

        ``options`` are the family's own; ``prefix`` forces the first target ids of each sentence; ``lines`` are the
        sentences' numbers in their stream, on which anything drawn at random depends, so that batches do not matter.
        """

    @abstractmethod
    def score(self, batch: Batch, options: Any = None) -> list[Hypothesis]:
        """The given targets as hypotheses, scored as decoding with these options would have scored them."""

    def room(self, source: Tensor) -> Tensor:
        """The most target tokens, END included, that can be learnt with sources of ``source`` [N] tokens, theirs included."""
        return torch.full_like(source, torch.iinfo(source.dtype).max)

    def forward(self, batch: Batch, progress: float) -> LossReport:
        return self.loss(batch, progress)
