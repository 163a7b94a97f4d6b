"""The models that a search asks for the next token."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfm_cli.transformer.network import Transformer


def mean_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """Log of the mean of several models' probabilities, all of one shape."""
    if len(log_probs) == 1:
        return log_probs[0]
    stacked = torch.stack(tuple(log_probs))
    return stacked.logsumexp(0) - torch.tensor(len(log_probs), dtype=stacked.dtype, device=stacked.device).log()


class Writers:
    """One or several networks that write the same rows; their probabilities are averaged."""

    def __init__(self, networks: Sequence[Transformer], source: Tensor) -> None:
        self.networks = networks
        self.caches = [network.start(network.encode(source)) for network in networks]

    def step(self, ids: Tensor) -> Tensor:
        """The newest token of each row [R] -> log-probabilities of the next [R, V], float32."""
        return mean_log_probs(
            [
                network.step(ids, cache).float().log_softmax(-1)
                for network, cache in zip(self.networks, self.caches, strict=True)
            ]
        )

    def reorder(self, rows: Tensor, sentences: Tensor | None) -> None:
        for cache in self.caches:
            cache.reorder(rows, sentences)
