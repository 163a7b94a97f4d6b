"""Drawing translations at random."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfm_cli.autoregressive.beam import Step
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import NEVER
from tfm_cli.transformer.special import END


class Draws:
    """One number in [0, 1) for every sentence, sample and step, fixed by the seed and the sentence's number alone.

    So a sentence gets the same samples in any batch. ``numbers`` [B, k, steps].
    """

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    @classmethod
    def of(cls, lines: Sequence[int], width: int, steps: int, seed: int) -> "Draws":
        generator = torch.Generator()
        numbers = torch.empty(len(lines), steps, width, dtype=torch.float64)
        for row, line in zip(numbers, lines, strict=True):
            # Steps come first, so that the draws of a sentence do not depend on the longest one beside it.
            row.copy_(torch.rand(steps, width, dtype=torch.float64, generator=generator.manual_seed(mix(seed, line))))
        return cls(numbers.transpose(1, 2))

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        self.numbers = self.numbers[sentences.to(self.numbers.device)]

    def at(self, step: int) -> Tensor:
        """[B, k] float64 for one step, on the CPU."""
        return self.numbers[:, :, step]


def mix(seed: int, line: int) -> int:
    """One well-spread 63-bit number of two (the finaliser of splitmix64)."""
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + line * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) >> 1


def sampling_step(log_prob: Tensor, next_log_probs: Tensor, numbers: Tensor, options: DecodeOptions) -> Step:
    """Draw one token for each sample.

    Args:
        log_prob: [B, j] so far, -inf for a sample that has ended; j is 1 at the first step and k later.
        next_log_probs: [B, j, V] of every next token.
        numbers: [B, k] float64 in [0, 1), on the CPU.
    """
    width, beams = numbers.shape[1], log_prob.shape[1]
    log_prob = log_prob.expand(-1, width)
    next_log_probs = next_log_probs.expand(-1, width, -1)
    # float64, since a sum of thousands of small float32 terms depends on its order; on the CPU, since not all devices have it.
    distribution = shape_distribution(next_log_probs, options).cpu().double().cumsum(-1)
    drawn = (numbers * distribution[..., -1]).unsqueeze(-1)
    token = torch.searchsorted(distribution, drawn, right=True).clamp_(max=next_log_probs.shape[2] - 1)
    token = token.to(next_log_probs.device)
    total = log_prob + next_log_probs.gather(2, token).squeeze(2)
    token = token.squeeze(2)
    parent = torch.arange(width, device=token.device).clamp(max=beams - 1).expand_as(token)
    is_end = token == END
    return Step(total.masked_fill(is_end, NEVER), parent, token, total.masked_fill(~is_end, NEVER), parent)


def shape_distribution(log_probs: Tensor, options: DecodeOptions) -> Tensor:
    """Probabilities [.., V] to draw from: temperature first, then the top k, then the top p (Holtzman et al. 2020)."""
    scaled = log_probs / options.temperature
    if 0 < options.top_k < scaled.shape[-1]:
        least = scaled.topk(options.top_k).values[..., -1:]
        scaled = scaled.masked_fill(scaled < least, NEVER)
    probs = scaled.softmax(-1)
    if options.top_p < 1:
        ranked, order = probs.sort(-1, descending=True)
        # A token stays while those before it hold less than top_p: the first always does.
        beyond = ranked.cumsum(-1) - ranked >= options.top_p
        probs = probs.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), 0.0)
    return probs
