"""The loop that joins a model, the rules and a step: left-to-right search over a batch."""

from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from tfm_cli.autoregressive.beam import Step, beam_step
from tfm_cli.autoregressive.greedy import greedy
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import NEVER, Rules
from tfm_cli.autoregressive.sampling import Draws, sampling_step
from tfm_cli.autoregressive.writers import Writers
from tfm_cli.transformer.hypothesis import Hypothesis, length_normalised
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.special import BEGIN


class Beams:
    """What has been written of the sentences still open.

    ``number`` [B] is a sentence's place in the batch it came in; ``log_prob`` [B, k] its beams' sums; ``tokens`` and
    ``token_log_probs`` [B, k, T] their tokens.
    """

    def __init__(self, sentences: int, device: torch.device) -> None:
        self.number = torch.arange(sentences, device=device)
        self.log_prob = torch.zeros(sentences, 1, device=device)
        self.tokens = torch.empty(sentences, 1, 0, dtype=torch.int64, device=device)
        self.token_log_probs = torch.empty(sentences, 1, 0, device=device)

    def extend(self, step: Step, next_log_probs: Tensor) -> None:
        """Take over the step's beams; next_log_probs [B, j, V] are those it chose from."""
        width = next_log_probs.shape[2]
        gained = next_log_probs.flatten(1).gather(1, step.parent * width + step.token)
        sentence = torch.arange(len(self.number), device=self.number.device)[:, None]
        self.log_prob = step.log_prob
        self.tokens = torch.cat((self.tokens[sentence, step.parent], step.token[..., None]), 2)
        self.token_log_probs = torch.cat((self.token_log_probs[sentence, step.parent], gained[..., None]), 2)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences [B']."""
        self.number, self.log_prob = self.number[sentences], self.log_prob[sentences]
        self.tokens, self.token_log_probs = self.tokens[sentences], self.token_log_probs[sentences]


class Finished:
    """The hypotheses of a batch that are complete, and when a sentence has enough of them."""

    def __init__(self, sentences: int, options: DecodeOptions, device: torch.device) -> None:
        self.options = options
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.count = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.best = torch.full((sentences, options.n_best), NEVER, device=device)

    def add_ended(self, beams: Beams, step: Step) -> None:
        """Take what END has closed; ``beams`` as they were before the step."""
        length = beams.tokens.shape[2] + 1
        ended = step.ended_log_prob > NEVER
        self.count += ended.sum(1)
        scores = step.ended_log_prob / length**self.options.length_penalty
        self.best = torch.cat((self.best, scores), 1).topk(self.options.n_best).values
        sentence, place = ended.nonzero(as_tuple=True)
        if not len(sentence):
            return
        parent = step.ended_parent[sentence, place]
        log_prob = step.ended_log_prob[sentence, place]
        end_log_prob = log_prob - beams.log_prob.expand_as(step.ended_log_prob)[sentence, parent]
        token_log_probs = torch.cat((beams.token_log_probs[sentence, parent], end_log_prob[:, None]), 1)
        self._add(beams.number[sentence], log_prob, beams.tokens[sentence, parent], token_log_probs, True)

    def add_cut(self, beams: Beams, at_cap: Tensor) -> None:
        """Take the beams of sentences that have reached their cap [B] as they stand."""
        sentence, beam = ((beams.log_prob > NEVER) & at_cap[:, None]).nonzero(as_tuple=True)
        if len(sentence):
            chosen = beams.log_prob[sentence, beam], beams.tokens[sentence, beam], beams.token_log_probs[sentence, beam]
            self._add(beams.number[sentence], *chosen, False)

    def _add(self, number: Tensor, log_prob: Tensor, tokens: Tensor, token_log_probs: Tensor, finished: bool) -> None:
        length = token_log_probs.shape[1]
        rows = zip(number.tolist(), log_prob.tolist(), tokens.tolist(), token_log_probs.tolist(), strict=True)
        for sentence, total, ids, terms in rows:
            score = length_normalised(total, length, self.options.length_penalty)
            self.hypotheses[sentence].append(Hypothesis(ids, score, total, terms, finished))

    def done(self, beams: Beams, cap: Tensor) -> Tensor:
        """[B] bool: k hypotheses have finished, no beam lives, or no living beam can enter the n best any more.

        A beam's sum only falls, and its length ends at the cap: its score stays below ``log_prob / cap^length_penalty``. To
        stop there changes nothing in the result.
        """
        leader = beams.log_prob.amax(1)
        bound = leader / cap.to(leader.dtype) ** self.options.length_penalty
        return (self.count >= self.options.width) | ~(leader > NEVER) | (self.best[:, -1] >= bound)

    def select(self, sentences: Tensor) -> None:
        """Go on watching only these sentences [B']; the hypotheses of the others stay."""
        self.count, self.best = self.count[sentences], self.best[sentences]

    def ranked(self) -> list[list[Hypothesis]]:
        """Per sentence its n best. One that had no possible continuation gives an empty, unfinished hypothesis."""
        nothing = [Hypothesis([], NEVER, NEVER, [], finished=False)]
        return [
            sorted(found, key=lambda h: h.score, reverse=True)[: self.options.n_best] or nothing
            for found in self.hypotheses
        ]


@torch.inference_mode()
def search(
    networks: Sequence[Transformer],
    source: Tensor,
    options: DecodeOptions,
    prefix: Sequence[Sequence[int]] | None = None,
    lines: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Write translations of ids [B, S], each sentence's best first (see `beam` for the rule).

    Sentences leave the batch as they are done. Rows start as one per sentence and widen to k after the first step.

    Args:
        networks: one model, or several over the same target vocabulary whose probabilities are averaged.
        prefix: the first target ids of each sentence; their log-probabilities count.
        lines: the sentences' numbers in their stream, on which samples depend; 0, 1, ... where not given.
    """
    if not len(source):
        return []
    rules, writers = Rules.of(source, options, prefix), Writers(networks, source)
    if options.beam == 1 and not options.sample:
        return [[found] for found in greedy(writers, rules, source, options)]
    return beam_search(writers, rules, source, options, range(len(source)) if lines is None else lines)


def beam_search(
    writers: Writers, rules: Rules, source: Tensor, options: DecodeOptions, lines: Sequence[int]
) -> list[list[Hypothesis]]:
    """`search` over at least one sentence, by beams or samples."""
    device = source.device
    beams, finished = Beams(len(source), device), Finished(len(source), options, device)
    draws = Draws.of(lines, options.width, int(rules.cap.max()), options.seed)
    ids = torch.full((len(source),), BEGIN, device=device)
    for length in count(1):
        next_log_probs = writers.step(ids).unflatten(0, beams.log_prob.shape)
        rules.apply(next_log_probs, beams.tokens)
        if options.sample:
            step = sampling_step(beams.log_prob, next_log_probs, draws.at(length - 1), options)
        else:
            step = beam_step(beams.log_prob, next_log_probs, options.beam)
        finished.add_ended(beams, step)
        first_row = torch.arange(len(beams.number), device=device)[:, None] * beams.log_prob.shape[1]
        rows = first_row + step.parent
        beams.extend(step, next_log_probs)
        at_cap = rules.cap <= length
        finished.add_cut(beams, at_cap)
        done = at_cap | finished.done(beams, rules.cap)
        kept = (~done).nonzero().squeeze(1) if bool(done.any()) else None
        if kept is not None:
            if not len(kept):
                break
            rows = rows[kept]
            for part in (beams, finished, rules, draws):
                part.select(kept)
        writers.reorder(rows.flatten(), kept)
        ids = beams.tokens[..., -1].flatten()
    return finished.ranked()
