"""Connectionist temporal classification: slots that say a token or nothing, read by merging and dropping (Graves et al. 2006).

The decoder's row has a fixed number of slots per source token, more than a translation needs; where in it the words stand is
summed over in training, so no length is predicted (Libovický and Helcl 2018).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.nonautoregressive.family import (
    NEVER,
    SPECIALS,
    NonAutoregressive,
    chunked_log_probs,
    hypothesis,
    token_counts,
    without_end,
)
from tfm_cli.nonautoregressive.glancing import Glancing, choose, errs, first_look, revealed
from tfm_cli.nonautoregressive.lattice import collapse, ctc_align, ctc_sum, needed_slots, owners
from tfm_cli.nonautoregressive.options import OBEYS, NonAutoregressiveDecodeOptions
from tfm_cli.nonautoregressive.prefixes import likeliest_sentences
from tfm_cli.nonautoregressive.projection import given_log_probs, needed_logits, path_loss
from tfm_cli.nonautoregressive.slots import blank_row, on_grid, or_impossible, slot_counts, slot_states
from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport, pad
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.special import BLANK, PAD

UNSAID = tuple(sorted({*SPECIALS} - {BLANK}))  # no slot says these


class Ctc(NonAutoregressive):
    """``upsample`` slots per source token, END included.

    A pair whose translation needs more slots than there are has no probability; it is left out of the loss and counted.
    """

    obeys = OBEYS["ctc"]

    def __init__(
        self,
        network: Transformer,
        upsample: int = 2,
        glancing: bool = False,
        glancing_start: float = 0.5,
        glancing_end: float | None = None,
    ) -> None:
        super().__init__(network)
        self.upsample = upsample
        self.glancing = Glancing.chosen(glancing, glancing_start, glancing_end)

    # -- training

    def room(self, source: Tensor) -> Tensor:
        return self.upsample * source + 1

    def loss(self, batch: Batch, progress: float) -> LossReport:
        """The negative log-likelihood, summed over all ways to write each translation. ``unusable`` counts pairs left out.

        All paths visit every slot, so that the slots' log-normalisers stand outside of the sum over paths.
        """
        memory, target = self.encode(batch), without_end(batch.target)
        ids, real = blank_row(slot_counts(memory, self.upsample))
        slots = real.sum(1)
        usable = needed_slots(target) <= slots
        if part := self.part_shown(progress):
            ids = self._shown(memory, ids, real, target, part)
        states = slot_states(self.network, memory, ids, real)
        total = path_loss(
            states,
            real,
            self.network.output_weight,
            with_blank(target),
            paths=lambda logits: ctc_sum(logits, target, slots),
        )
        count = int((batch.target[usable] != PAD).sum())
        return LossReport(total, count, {"nll": total.detach(), "unusable": (~usable).sum()})

    def _shown(self, memory: Memory, ids: Tensor, real: Tensor, target: Tensor, part: float) -> Tensor:
        """A first look, then ids [B, L] in which a part of the slots that err say what the best path says there."""
        with first_look(ids.device):
            states = slot_states(self.network, memory, ids, real)
            weight, slots = self.network.output_weight, real.sum(1)
            aligned = ctc_align(needed_logits(on_grid(states, real), weight, with_blank(target)), target, slots)
            wrong = torch.zeros_like(real).masked_scatter(real, errs(states, weight, aligned[real], UNSAID))
            real = real & (needed_slots(target) <= slots)[:, None]
            shown = choose(revealed(part, (wrong & real).sum(1)), real)
        return torch.where(shown, aligned, ids)

    # -- use

    def written(
        self, source: Tensor, memory: Memory, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        """The best single path, collapsed, or with a ``ctc_beam`` the likeliest sentence of `prefixes`.

        Where that says nothing of a source that says something, it is the best that has a word.
        """
        ids, real = blank_row(slot_counts(memory, self.upsample))
        states = slot_states(self.network, memory, ids, real)
        if options.ctc_beam > 1:
            return self._searched(source, states, real, options)
        said, terms = self.write(states, real, UNSAID)
        silent = real & (~collapse(said).any(1) & (token_counts(source) > 0))[:, None]
        if bool(silent.any()):
            words, word_terms = self.write(states[silent[real]], silent, SPECIALS)
            row = silent.any(1).nonzero()[:, 0]
            # The word that costs least in place of its blank.
            slot = (word_terms - terms).masked_fill(~silent, NEVER).argmax(1)[row]
            said[row, slot], terms[row, slot] = words[row, slot], word_terms[row, slot]
        return [[found] for found in read(said, terms)]

    def _searched(
        self, source: Tensor, states: Tensor, real: Tensor, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        """The likeliest sentence, or every one of the beam, likeliest first; their numbers are those of their best paths."""
        words, log_probs, blank = likely_words(self.network, states, real, options.ctc_beam)
        found = likeliest_sentences(words, log_probs, blank, options.ctc_beam)
        chosen = []
        for each, speaks in zip(found, (token_counts(source) > 0).tolist(), strict=True):
            rows = [tokens for tokens, _ in each if tokens or not speaks]
            chosen.append(rows[: options.n_best])
        width = max(map(len, chosen))
        target = pad([row for rows in chosen for row in (*rows, *[[]] * (width - len(rows)))]).to(real.device)
        scored = self._by_best_path(states, real, target.unflatten(0, (len(chosen), width)))
        return [each[: len(rows)] for each, rows in zip(scored, chosen, strict=True)]

    @torch.inference_mode()
    def score(self, batch: Batch, options: NonAutoregressiveDecodeOptions | None = None) -> list[Hypothesis]:
        """By the best path that says the translation. One that needs more slots than there are has no probability."""
        memory, target = self.network.encode(batch.source), without_end(batch.target)
        ids, real = blank_row(slot_counts(memory, self.upsample))
        states = slot_states(self.network, memory, ids, real)
        return [found for (found,) in self._by_best_path(states, real, target[:, None])]

    def _by_best_path(self, states: Tensor, real: Tensor, target: Tensor) -> list[list[Hypothesis]]:
        """`score` of targets [B, W, T], W of them for each row of slots."""
        several, length = target.shape[1:]
        log_probs = given_log_probs(self.network, states, real, with_blank(target.flatten(1)))
        own = log_probs[..., 1:].unflatten(2, (several, length)).transpose(1, 2)
        blank = log_probs[:, None, :, :1].expand(-1, several, -1, -1)
        log_probs = torch.cat((blank, own), 3).flatten(0, 1)
        target, real = target.flatten(0, 1), real.repeat_interleave(several, 0)
        slots = real.sum(1)
        aligned = ctc_align(log_probs, target, slots)
        column = torch.where(aligned == BLANK, 0, 1 + owners(aligned, collapse(aligned)))
        terms = log_probs.gather(2, column.clamp(max=length)[..., None])[..., 0]
        found = or_impossible(read(aligned, terms.masked_fill(~real, 0)), target, needed_slots(target) <= slots)
        return [found[begin : begin + several] for begin in range(0, len(found), several)]


def likely_words(network: Transformer, states: Tensor, real: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """What each of the ``real`` [B, L] slots may say, from states [N, D] there, as `likeliest_sentences` takes it.

    The ``count`` likeliest words [B, L, K], their log-probabilities, and the blank's [B, L].
    """
    found = []
    for likely in chunked_log_probs(network, states):
        blank = likely[:, BLANK].clone()
        likely[:, list(SPECIALS)] = NEVER
        found.append((*likely.topk(min(count, likely.shape[1])), blank))
    terms, ids, blanks = (torch.cat(each) for each in zip(*found, strict=True))
    words = ids.new_full((*real.shape, ids.shape[1]), PAD)
    log_probs, blank = terms.new_full(words.shape, NEVER), terms.new_zeros(real.shape)
    words[real], log_probs[real], blank[real] = ids, terms, blanks
    return words, log_probs, blank


def with_blank(target: Tensor) -> Tensor:
    """The words that the lattice of targets [B, T] asks about: BLANK, then the tokens; [B, 1 + T]."""
    return F.pad(target, (1, 0), value=BLANK)


def read(ids: Tensor, log_probs: Tensor) -> list[Hypothesis]:
    """What slots [B, L] say, padded with PAD and 0. A token's term is that of all its slots and the blanks before it.

    The blanks at the end are the term of the ending, so that the terms add up to the path's log-probability.
    """
    kept = collapse(ids)
    counts = kept.sum(1).tolist()
    tokens = ids[kept].tolist()
    terms = log_probs.new_zeros(len(ids), max(counts) + 1).scatter_add(1, owners(ids, kept), log_probs).tolist()
    found, begin = [], 0
    for count, row in zip(counts, terms, strict=True):
        found.append(hypothesis(tokens[begin : begin + count], row[:count], row[count]))
        begin += count
    return found
