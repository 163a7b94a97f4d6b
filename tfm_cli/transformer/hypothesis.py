"""One answer of a model. It stands apart from the tensors, so that an engine without torch can give it too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One translation as ids, without BEGIN and END.

    ``score`` ranks hypotheses of one sentence; ``log_prob`` is the natural log of the model's probability, END included;
    ``token_log_probs`` holds its terms, one per token and END's last where the sentence ended by itself;
    ``finished`` is False where the length cap cut it.
    """

    tokens: list[int]
    score: float
    log_prob: float
    token_log_probs: list[float]
    finished: bool = True

    @classmethod
    def of(cls, tokens: list[int], terms: list[float], finished: bool, length_penalty: float) -> "Hypothesis":
        """The hypothesis of tokens and their log-probabilities, END's behind them where it is finished."""
        log_prob = sum(terms)
        return cls(tokens, length_normalised(log_prob, len(terms), length_penalty), log_prob, terms, finished)


def length_normalised(log_prob: float, length: int, length_penalty: float) -> float:
    """The score that ranks hypotheses: ``log_prob / length^length_penalty``, ``length`` in tokens with END."""
    return log_prob / max(length, 1) ** length_penalty
