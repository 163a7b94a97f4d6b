"""One step of beam search, a pure function of numbers.

The rule, which is CTranslate2's and fairseq's: of all ``k * V`` continuations of a sentence's k beams the 2k with the highest
summed log-probability are candidates. A candidate that is END and ranks within the first k becomes a finished hypothesis;
the k best candidates that are not END go on as beams. `search` closes a sentence when k hypotheses have finished.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.autoregressive.rules import NEVER
from tfm_cli.transformer.special import END

_BLOCKS = 128  # of the vocabulary, whose maxima are looked at first


class Step(NamedTuple):
    """What a step decided for each of B sentences; a ``log_prob`` of -inf marks an empty place.

    ``log_prob``, ``parent`` and ``token`` [B, k] are the beams that go on: their sum so far, the beam they come from, and
    what is added to it. ``ended_log_prob`` and ``ended_parent`` [B, k] are those that END has closed.
    """

    log_prob: Tensor
    parent: Tensor
    token: Tensor
    ended_log_prob: Tensor
    ended_parent: Tensor


def beam_step(log_prob: Tensor, next_log_probs: Tensor, k: int) -> Step:
    """Choose among the continuations of beams.

    Args:
        log_prob: [B, j] summed log-probability of each beam, -inf for an empty one.
        next_log_probs: [B, j, V] of every next token.
        k: beams wanted; j is 1 at the first step and k later.
    """
    total, parent, token = best_continuations(log_prob, next_log_probs, 2 * k)
    is_end = token == END
    going = total.masked_fill(is_end, NEVER)
    log_prob, rank = going.topk(k)
    ended = total[:, :k].masked_fill(~is_end[:, :k], NEVER)
    return Step(log_prob, parent.gather(1, rank), token.gather(1, rank), ended, parent[:, :k])


def best_continuations(log_prob: Tensor, next_log_probs: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ``count`` best of all j * V continuations, best first, -inf where there are fewer.

    The vocabulary is looked at in interleaved blocks: the best tokens lie in the blocks with the best maxima, and to rank
    those few takes a fraction of the time of a full top-k.

    Returns:
        Their summed log-probability, beam and token, each [B, count].
    """
    sentences, beams, vocab = next_log_probs.shape
    blocks = min(_BLOCKS, vocab)
    whole = vocab - vocab % blocks
    blocked = next_log_probs[..., :whole].unflatten(2, (-1, blocks))  # [B, j, whole / blocks, blocks]
    maxima = (blocked.amax(2) + log_prob[..., None]).flatten(1)
    chosen = maxima.topk(min(count, maxima.shape[1]), sorted=False).indices
    beam, block = chosen // blocks, chosen % blocks
    token = torch.arange(0, whole, blocks, device=chosen.device) + block[..., None]  # [B, chosen, whole / blocks]
    parent = beam[..., None].expand_as(token)
    if whole < vocab:
        rest = torch.arange(whole, vocab, device=chosen.device).expand(sentences, beams, -1)
        token = torch.cat((token.flatten(1), rest.flatten(1)), 1)
        every = torch.arange(beams, device=chosen.device)[:, None].expand(sentences, -1, vocab - whole)
        parent = torch.cat((parent.flatten(1), every.flatten(1)), 1)
    token, parent = token.flatten(1), parent.flatten(1)
    total = next_log_probs.flatten(1).gather(1, parent * vocab + token) + log_prob.gather(1, parent)
    best, rank = total.topk(min(count, total.shape[1]))
    room = (0, count - best.shape[1])
    return F.pad(best, room, value=NEVER), F.pad(parent.gather(1, rank), room), F.pad(token.gather(1, rank), room)
