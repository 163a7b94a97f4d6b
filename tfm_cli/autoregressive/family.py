"""The autoregressive family: each token is predicted from the source and the tokens before it."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.search import search
from tfm_cli.autoregressive.writers import mean_log_probs
from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport
from tfm_cli.transformer.consistency import consistency_loss
from tfm_cli.transformer.family import Family
from tfm_cli.transformer.loss import projection_loss
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.special import BEGIN, END, PAD


class Autoregressive(Family):
    """Trained by teacher forcing with label smoothing (section 5.4); decodes by beam search or sampling.

    ``r_drop`` above 0 trains with two dropout masks that shall agree (see `tfm_cli.transformer.consistency`).
    """

    default_options = DecodeOptions()

    def __init__(self, network: Transformer, label_smoothing: float = 0.1, r_drop: float = 0.0) -> None:
        super().__init__(network)
        self.label_smoothing, self.r_drop = label_smoothing, r_drop

    @property
    def networks(self) -> Sequence[Transformer]:
        """The networks whose probabilities are averaged in decoding."""
        return (self.network,)

    def loss(self, batch: Batch, progress: float) -> LossReport:
        here, there = batch.packings or batch.pack()
        count, target, weight = there.count, there.pick(batch.target), self.network.output_weight
        states = self._states(batch, here, there)
        if self.r_drop and self.training:
            again = self._states(batch, here, there)
            total, nll = consistency_loss((states, again), weight, target, count, self.label_smoothing, self.r_drop)
        else:
            total, nll = projection_loss(states, weight, target, self.label_smoothing, count=count)
        return LossReport(total, count, {"nll": nll})

    def _states(self, batch: Batch, here: Packing, there: Packing) -> Tensor:
        """The decoder's states before each target token, rows [N, D]."""
        memory = self.network.encode(batch.source, here)
        return self.network.decode(decoder_input(batch.target), memory, causal=True, packing=there)

    def decode(
        self,
        source: Tensor,
        options: DecodeOptions,
        prefix: list[list[int]] | None = None,
        lines: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        return search(self.networks, source, options, prefix, lines)

    @torch.inference_mode()
    def score(self, batch: Batch, options: DecodeOptions | None = None) -> list[Hypothesis]:
        """``options`` give the length penalty of the scores. A target without END at its end counts as cut short."""
        penalty = (options or DecodeOptions()).length_penalty
        log_probs = mean_log_probs([forced_log_probs(network, batch) for network in self.networks])
        return [
            _hypothesis(ids, terms, penalty)
            for ids, terms in zip(batch.target.tolist(), log_probs.tolist(), strict=True)
        ]


class Ensemble(Autoregressive):
    """Several trained models with one target vocabulary that decode and score together."""

    def __init__(self, families: Sequence[Autoregressive]) -> None:
        super().__init__(families[0].network, families[0].label_smoothing)
        self.others = torch.nn.ModuleList(family.network for family in families[1:])

    @property
    def networks(self) -> Sequence[Transformer]:
        return (self.network, *self.others)


def decoder_input(target: Tensor) -> Tensor:
    """Targets [B, T] shifted right: BEGIN, then all but the last column."""
    return F.pad(target[:, :-1], (1, 0), value=BEGIN)


def forced_log_probs(network: Transformer, batch: Batch) -> Tensor:
    """Log-probability of every given target token: [B, T] float32."""
    states = network.decode(decoder_input(batch.target), network.encode(batch.source), causal=True)
    return network.log_probs(states.flatten(0, 1), batch.target.flatten()).view_as(batch.target)


def _hypothesis(ids: list[int], terms: list[float], length_penalty: float) -> Hypothesis:
    length = sum(i != PAD for i in ids)
    finished = length > 0 and ids[length - 1] == END
    return Hypothesis.of(ids[: length - finished], terms[:length], finished, length_penalty)
