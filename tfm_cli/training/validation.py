"""How good the model is now: loss on held-out pairs, and BLEU and chrF of real translations."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tfm_cli.data.batching import collate, plan
from tfm_cli.data.storage import Split
from tfm_cli.evaluation.metrics import quick_scores
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.transformer.batch import pad
from tfm_cli.transformer.family import Family

DECODE_TOKENS = 8192  # sentences times their length times beams
LONGEST = 1000  # tokens; one monstrous line must not take the memory of the run


@dataclass(frozen=True)
class Sample:
    source: str
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class ValidationReport:
    """``loss`` is nats per target token without label smoothing; scores are on 0..100, of so many ``sentences``.

    ``unusable`` pairs have no probability in this family and are in no loss.
    """

    step: int
    epoch: float
    loss: float
    unusable: int
    scores: dict[str, float]
    signatures: dict[str, str]
    sentences: int
    samples: list[Sample]
    seconds: float
    all_equal: bool
    is_best: bool = False

    def figure(self, name: str) -> float:
        """The figure called bleu, chrf or loss, turned so that more is better."""
        return -self.loss if name == "loss" else self.scores[{"bleu": "BLEU", "chrf": "chrF"}[name]]


class Validator:
    """Holds the validation pairs ready and measures a family on them."""

    def __init__(
        self, split: Split, tokenizers: Tokenizers, language: str | None, sentences: int, options: Any
    ) -> None:
        self.split, self.tokenizers, self.language, self.options = split, tokenizers, language, options
        self.chosen = np.arange(min(sentences, len(split)))
        self.texts = split.texts(self.chosen)
        if len(self.chosen):
            quick_scores(
                [""], [""], language
            )  # a missing scorer is better told before the training than after an epoch

    def loss(self, family: Family, device: torch.device) -> tuple[float, int]:
        """Mean negative log-likelihood per target token over the split, pairs of more than `LONGEST` tokens left out.

        The second number counts the pairs without a probability, which are left out too.
        """
        total, count, unusable = 0.0, 0, 0
        short = np.flatnonzero(self.split.lengths.max(axis=1) <= LONGEST)
        for batch in plan(self.split.lengths[short], 4096).batches:
            indices = short[batch]
            report = family.loss(collate(self.split.pairs(indices)).to(device), 1.0)
            total += float(report.parts["nll"])
            count += report.count
            unusable += int(report.parts.get("unusable", 0))
        return total / max(count, 1), unusable

    def translate(self, family: Family, device: torch.device) -> list[str]:
        """Translations of the chosen sentences, in order."""
        hypotheses: list[str] = [""] * len(self.chosen)
        order = np.argsort(self.split.lengths[self.chosen, 0], kind="stable")
        width = self.split.lengths[self.chosen, 0].clip(max=LONGEST)
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and (end + 1 - begin) * width[order[end]] <= DECODE_TOKENS // self.options.width:
                end += 1
            rows = order[begin:end]
            sources = [source[:LONGEST] for source, _ in self.split.pairs(self.chosen[rows])]
            found = family.decode(pad(sources).to(device), self.options)
            for row, best in zip(rows, found, strict=True):
                hypotheses[row] = self.tokenizers.target.decode(best[0].tokens)
            begin = end
        return hypotheses

    def measure(self, family: Family, device: torch.device, step: int, epoch: float, samples: int) -> ValidationReport:
        """Everything about ``family``, which must be in evaluation mode."""
        begin = time.monotonic()
        with torch.inference_mode():
            loss, unusable = self.loss(family, device)
            hypotheses = self.translate(family, device)
        references = [reference for _, reference in self.texts]
        scores = quick_scores(hypotheses, references, self.language) if hypotheses else []
        # Other sentences each time, so that a reader sees more than two.
        shown = [
            (step // 7 + i * max(1, len(hypotheses) // max(1, samples))) % max(1, len(hypotheses))
            for i in range(samples)
        ]
        return ValidationReport(
            step=step,
            epoch=epoch,
            loss=loss,
            unusable=unusable,
            scores={score.metric: score.value for score in scores},
            signatures={score.metric: score.signature for score in scores},
            sentences=len(hypotheses),
            samples=[Sample(*self.texts[i], hypotheses[i]) for i in shown] if hypotheses else [],
            seconds=time.monotonic() - begin,
            all_equal=len(hypotheses) > 1 and len(set(hypotheses)) == 1,
        )
