"""What may not be written: rules set candidates to -inf after the softmax, so what is left keeps its true probability."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.transformer.batch import pad
from tfm_cli.transformer.special import BLANK, END, MASK, PAD

NEVER = float("-inf")


@dataclass
class Rules:
    """The rules of a batch: one entry per sentence still being written.

    ``cap`` [B] is the length at which a sentence is cut, ``floor`` [B] the length before END may come (both in tokens with
    END); ``prefix`` [B, P] the forced first tokens, PAD behind them.
    """

    cap: Tensor
    floor: Tensor
    prefix: Tensor
    no_repeat_ngram: int = 0
    latest_floor: int = 0

    @classmethod
    def of(cls, source: Tensor, options: DecodeOptions, prefix: Sequence[Sequence[int]] | None) -> "Rules":
        """The rules for source ids [B, S]. A prefix longer than the cap lifts it, so that it is always written whole."""
        tokens = ((source != PAD) & (source != END)).sum(1).cpu().double()  # some devices have no float64
        forced = pad(prefix if prefix is not None else [[]] * len(source)).to(source.device)
        cap = (tokens * options.max_length_ratio).ceil().long().to(source.device) + options.max_length_extra
        cap = torch.maximum(cap, (forced != PAD).sum(1) + 1)
        floor = torch.minimum((tokens * options.min_length_ratio).floor().long().to(source.device), cap)
        return cls(cap, floor, forced, options.no_repeat_ngram, int(floor.max()))

    def apply(self, log_probs: Tensor, history: Tensor) -> None:
        """Edit log_probs [B, k, V] of the tokens that come after history [B, k, T], in place."""
        length = history.shape[-1]
        wanted = self.prefix[:, length] if length < self.prefix.shape[1] else None
        forced = wanted is not None and bool((wanted != PAD).any())
        if wanted is not None and forced:
            index = wanted[:, None, None].expand(-1, log_probs.shape[1], 1)
            kept = log_probs.gather(2, index)
        log_probs[..., :END] = NEVER  # PAD and BEGIN
        log_probs[..., MASK : BLANK + 1] = NEVER
        if length + 1 < self.latest_floor:
            log_probs[..., END].masked_fill_((length + 1 < self.floor)[:, None], NEVER)
        if self.no_repeat_ngram:
            forbid_repeats(log_probs, history, self.no_repeat_ngram)
        if wanted is not None and forced:
            kept = torch.where((wanted == PAD)[:, None, None], log_probs.gather(2, index), kept)
            log_probs.masked_fill_((wanted != PAD)[:, None, None], NEVER)
            log_probs.scatter_(2, index, kept)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        self.cap, self.floor = self.cap[sentences], self.floor[sentences]
        self.prefix = self.prefix[sentences]


def forbid_repeats(log_probs: Tensor, history: Tensor, n: int) -> None:
    """Forbid every token that would write a run of n tokens of its history a second time.

    log_probs [B, k, V] is edited in place, PAD being forbidden along the way; history [B, k, T].
    """
    if history.shape[-1] < n:
        return
    runs = history.unfold(-1, n, 1)  # [B, k, T - n + 1, n]
    opening = history[..., history.shape[-1] - n + 1 :]
    repeats = (runs[..., :-1] == opening[..., None, :]).all(-1)
    log_probs.scatter_(2, runs[..., -1].masked_fill(~repeats, PAD), NEVER)
