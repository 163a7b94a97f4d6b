"""Greedy search: beam search with one beam, of which nothing but the likeliest next token is ever looked at."""

from itertools import count

import torch
from torch import Tensor

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import NEVER, Rules
from tfm_cli.autoregressive.writers import Writers
from tfm_cli.transformer.argmax import greatest
from tfm_cli.transformer.hypothesis import Hypothesis
from tfm_cli.transformer.special import BEGIN, END


def greedy(writers: Writers, rules: Rules, source: Tensor, options: DecodeOptions) -> list[Hypothesis]:
    """The translation of each of ids [B, S]: the same as `tfm_cli.autoregressive.search.beam_search` with ``beam`` 1."""
    device, caps = source.device, rules.cap.tolist()
    room = max(caps)
    tokens = torch.full((len(source), room), END, device=device)
    terms = torch.full((len(source), room), NEVER, device=device)
    open_ = torch.arange(len(source), device=device)
    ids = torch.full((len(source),), BEGIN, device=device)
    for length in count(1):
        log_probs = writers.step(ids)
        rules.apply(log_probs[:, None], tokens[open_, None, : length - 1])
        best, ids = greatest(log_probs)
        tokens[open_, length - 1], terms[open_, length - 1] = ids, best
        over = (ids == END) | (rules.cap <= length) | (best == NEVER)
        if bool(over.any()):
            kept = (~over).nonzero().squeeze(1)
            if not len(kept):
                break
            open_, ids = open_[kept], ids[kept]
            rules.select(kept)
            writers.reorder(kept, kept)
    rows = zip(tokens.tolist(), terms.tolist(), caps, strict=True)
    return [_read(ids, found, cap, options.length_penalty) for ids, found, cap in rows]


def _read(tokens: list[int], terms: list[float], cap: int, length_penalty: float) -> Hypothesis:
    """What was written of one sentence: up to END, or as far as it may go; nothing where it could neither go on nor end."""
    length = next((i for i, term in enumerate(terms) if term == NEVER), len(terms))
    finished = length > 0 and tokens[length - 1] == END
    if not finished and length < cap:
        return Hypothesis([], NEVER, NEVER, [], finished=False)
    return Hypothesis.of(tokens[: length - finished], terms[:length], finished, length_penalty)
