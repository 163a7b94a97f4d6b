"""How long a translation will be, told before its first word: a bound, or a classifier on the encoder's output."""

import torch
from torch import Tensor, nn

from tfm_cli.nonautoregressive.family import hypothesis
from tfm_cli.transformer.batch import Hypothesis
from tfm_cli.transformer.network import Memory

CLASSES, OFFSET = 256, 128
RATIO, EXTRA = 1.5, 16


def ample(source: Tensor, cap: int) -> Tensor:
    """``min(cap, ceil(1.5 S) + 16)`` for sources of S tokens [B]: rows in which nearly every translation has room."""
    return ((source * RATIO).ceil().long() + EXTRA).clamp(max=cap)


class LengthClassifier(nn.Module):
    """The mean of the encoder's states -> the difference T - S, one of 256 classes (Ghazvininejad et al. 2019, section 2.3)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, CLASSES)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, memory: Memory) -> Tensor:
        """Log-probabilities [B, 256] in float32."""
        states, real = memory.states, memory.mask[:, 0, 0, :, None]
        if memory.packing is not None:
            states = states.index_select(0, memory.packing.rows).view(*memory.packing.grid, -1)
        mean = states.masked_fill(~real, 0).sum(1, dtype=torch.float32) / real.sum(1)
        return self.output(mean.to(states.dtype)).float().log_softmax(-1)


def log_prob_of(log_probs: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """The classifier's log-probability [B] of ``target`` [B] tokens for sources of ``source`` [B].

    A difference that has no class counts as the nearest one that has.
    """
    classes = (target - source + OFFSET).clamp(0, CLASSES - 1)
    return log_probs.gather(1, classes[:, None])[:, 0]


def candidates(log_probs: Tensor, source: Tensor, scale: float, beam: int, cap: int) -> Tensor:
    """Lengths [B, beam] to try: ``round(scale * predicted)`` first, halves upward, then its neighbours; all in 1..cap."""
    predicted = source + log_probs.argmax(1) - OFFSET
    middle = (scale * predicted.cpu().double() + 0.5).floor().long().to(source.device)  # some devices have no float64
    # 0, 1, -1, 2, -2, ...
    step = torch.arange(beam, device=source.device)
    away = torch.where(step % 2 == 1, (step + 1) // 2, -(step // 2))
    return (middle.clamp(min=1)[:, None] + away).clamp(1, cap)


def length_loss(log_probs: Tensor, source: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The classifier's loss with each sentence weighted by its part ``weight`` [B] of what counts, and the plain sum, in nats.

    Weighted so, the mean over tokens of the whole loss is the mean over tokens of their losses plus that of the length's.
    """
    nll = -log_prob_of(log_probs, source, target)
    return (nll * weight).sum(), nll.detach().sum()


def repeated(memory: Memory, times: int) -> Memory:
    """Each sentence of an unpacked memory ``times`` times, side by side."""
    if times == 1:
        return memory
    return Memory(memory.states.repeat_interleave(times, 0), memory.mask.repeat_interleave(times, 0))


def surest(
    ids: Tensor, terms: Tensor, tried: Tensor, log_probs: Tensor, source: Tensor, every: bool = False
) -> list[list[Hypothesis]]:
    """Of each sentence's rows, one for each length ``tried`` [B, k], the one of the best mean log-probability.

    With ``every``, all of them, the best first.

    Args:
        ids: [B * k, T], a sentence's rows side by side; ``terms`` are their log-probabilities, 0 beyond the row.
        log_probs: the classifier's [B, 256], whose word on the length stands for END's.
        source: [B] source tokens.
    """
    mean = terms.view(*tried.shape, -1).sum(-1) / tried
    best = mean.argsort(dim=1, descending=True, stable=True) if every else mean.argmax(1, keepdim=True)
    kept = best.shape[1]
    lengths = tried.gather(1, best).flatten()
    chosen = (torch.arange(len(tried), device=ids.device)[:, None] * tried.shape[1] + best).flatten()
    endings = log_prob_of(log_probs.repeat_interleave(kept, 0), source.repeat_interleave(kept), lengths)
    rows = zip(ids[chosen].tolist(), terms[chosen].tolist(), lengths.tolist(), endings.tolist(), strict=True)
    found = [hypothesis(row[:length], term[:length], ending) for row, term, length, ending in rows]
    return [found[begin : begin + kept] for begin in range(0, len(found), kept)]
