"""The directed acyclic transformer (Huang et al. 2022): one pass writes a graph of words, a path through it is a translation.

The decoder's row is several times as long as a translation. Each position is a vertex that says one word and has links to later
ones, so that words which belong to different ways to say the same do not mix as they do where every position is read.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.nonautoregressive.family import SPECIALS, NonAutoregressive, hypothesis, without_end
from tfm_cli.nonautoregressive.glancing import Glancing, choose, errs, first_look, revealed
from tfm_cli.nonautoregressive.length import ample
from tfm_cli.nonautoregressive.links import Links
from tfm_cli.nonautoregressive.options import OBEYS, NonAutoregressiveDecodeOptions
from tfm_cli.nonautoregressive.paths import IMPOSSIBLE, align, best_scores, closed, path_sum, trace, walk
from tfm_cli.nonautoregressive.projection import given_log_probs, needed_log_probs
from tfm_cli.nonautoregressive.slots import blank_row, on_grid, or_impossible, slot_counts, slot_states
from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.special import PAD


class Dag(NonAutoregressive):
    """``vertices`` per source token, END included, of which the first and the last are start and end and say nothing.

    A pair whose translation has more tokens than vertices to say them has no probability; it is left out of the loss and
    counted.
    """

    obeys = OBEYS["dag"]

    def __init__(
        self,
        network: Transformer,
        vertices: int = 4,
        glancing: bool = False,
        glancing_start: float = 0.5,
        glancing_end: float | None = None,
    ) -> None:
        super().__init__(network)
        self.vertices = vertices
        self.glancing = Glancing.chosen(glancing, glancing_start, glancing_end, default_end=0.1)
        self.links = Links(network.shape.dim, network.shape.heads)

    # -- training

    def room(self, source: Tensor) -> Tensor:
        return (self.vertices * source - 1).clamp(min=1)

    def loss(self, batch: Batch, progress: float) -> LossReport:
        """The negative log-likelihood, summed over all paths of each translation. ``unusable`` counts pairs left out.

        A vertex that glancing shows a token says it in every path, which no other vertex does.
        """
        memory, target = self.encode(batch), without_end(batch.target)
        ids, real = self._row(memory)
        vertices, lengths = real.sum(1), (target != PAD).sum(1)
        usable = lengths + 2 <= vertices
        said = None
        if part := self.part_shown(progress):
            ids, said = self._shown(memory, ids, real, target, part)
        links, emissions = self._graph(memory, ids, real, target)
        if said is not None:
            certain = torch.arange(target.shape[1], device=ids.device) == said[..., None]
            given = torch.zeros_like(emissions).masked_fill_(~certain, IMPOSSIBLE)
            shown = (said >= 0)[..., None] | certain.any(1, keepdim=True)
            emissions = torch.where(shown, given, emissions)
        total = -path_sum(links, emissions, lengths, vertices)[usable].sum()
        count = int((batch.target[usable] != PAD).sum())
        return LossReport(total, count, {"nll": total.detach(), "unusable": (~usable).sum()})

    def _row(self, memory: Memory) -> tuple[Tensor, Tensor]:
        return blank_row(slot_counts(memory, self.vertices, least=2))

    def _graph(self, memory: Memory, ids: Tensor, real: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Links [B, L, L], and log-probabilities [B, L, T] of targets [B, T] at each vertex."""
        states = slot_states(self.network, memory, ids, real)
        return self.links(states, real), given_log_probs(self.network, states, real, target)

    def _shown(self, memory: Memory, ids: Tensor, real: Tensor, target: Tensor, part: float) -> tuple[Tensor, Tensor]:
        """A first look, then ids [B, L] in which vertices of the best path say a part of the tokens that err there.

        The second answer [B, L] is the index of the token that a vertex was shown, -1 where it was shown none.
        """
        known = target != PAD
        with first_look(ids.device):
            states = slot_states(self.network, memory, ids, real)
            grid, weight = on_grid(states, real), self.network.output_weight
            emissions = needed_log_probs(states, real, weight, target)
            vertices, lengths = real.sum(1), known.sum(1)
            path = align(self.links(states, real).log(), emissions, lengths, vertices)
            known = known & (lengths + 2 <= vertices)[:, None]
            aligned = grid.gather(1, path[..., None].expand(-1, -1, grid.shape[2]))[known]
            wrong = known.masked_scatter(known, errs(aligned, weight, target[known], SPECIALS))
            shown = choose(revealed(part, wrong.sum(1)), known)
        sentence, token = shown.nonzero(as_tuple=True)
        ids, said = ids.clone(), torch.full_like(ids, -1)
        ids[sentence, path[shown]] = target[shown]
        said[sentence, path[shown]] = token
        return ids, said

    # -- use

    def written(
        self, source: Tensor, memory: Memory, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        """One path, chosen as ``options.paths`` says. With a ``length_scale`` it is the best path of so many times the
        tokens of that one.
        """
        ids, real = self._row(memory)
        vertices, states = real.sum(1), slot_states(self.network, memory, ids, real)
        log_links = self.links(states, real).log()
        words, said = self.write(states, real, SPECIALS)
        path, lengths = self._path(log_links, _between(said, vertices), vertices, options)
        found = _read(path, lengths, words.gather(1, path), said.gather(1, path), log_links, vertices)
        return [[each] for each in found]

    def _path(
        self, log_links: Tensor, said: Tensor, vertices: Tensor, options: NonAutoregressiveDecodeOptions
    ) -> tuple[Tensor, Tensor]:
        """The vertices [B, T] that are read, and how many [B]; ``said`` [B, L] is what each vertex's best word gives."""
        if options.paths == "viterbi":
            most = torch.minimum(ample(vertices / self.vertices, int(vertices.max())), vertices - 2)
            scores = best_scores(log_links, said.expand(int(most.max()), -1, -1))
            tokens = torch.arange(len(scores), device=said.device)[:, None]
            # The ending counts as a token, and a long path is judged by its mean.
            means = closed(scores, log_links, vertices) / (tokens + 1)
            lengths = means.masked_fill(tokens > most, IMPOSSIBLE).argmax(0)
        else:
            reward = said.masked_fill(said == IMPOSSIBLE, 0) * (options.paths == "lookahead")
            walks = walk(log_links, reward, vertices)
            lengths = torch.tensor([len(taken) for taken in walks], device=said.device)
            if options.length_scale == 1:
                longest = int(lengths.max())
                rows = [[*taken, *[0] * (longest - len(taken))] for taken in walks]
                return torch.tensor(rows, dtype=torch.int64, device=said.device), lengths
        if options.length_scale != 1:
            scaled = (lengths.cpu().double() * options.length_scale + 0.5).floor().long().to(said.device)
            lengths = torch.minimum(scaled, vertices - 2)
            scores = best_scores(log_links, said.expand(int(lengths.max()), -1, -1))
        return trace(scores, log_links, lengths, vertices), lengths

    @torch.inference_mode()
    def score(self, batch: Batch, options: NonAutoregressiveDecodeOptions | None = None) -> list[Hypothesis]:
        """By the best path that says the translation. One that needs more vertices than there are has no probability."""
        memory, target = self.network.encode(batch.source), without_end(batch.target)
        ids, real = self._row(memory)
        links, emissions = self._graph(memory, ids, real, target)
        vertices, lengths, log_links = real.sum(1), (target != PAD).sum(1), links.log()
        path = align(log_links, emissions, lengths, vertices)
        terms = emissions.transpose(1, 2).gather(2, path[..., None])[..., 0]
        found = _read(path, lengths, target, terms, log_links, vertices)
        return or_impossible(found, target, lengths + 2 <= vertices)


def _read(
    path: Tensor, lengths: Tensor, words: Tensor, terms: Tensor, log_links: Tensor, vertices: Tensor
) -> list[Hypothesis]:
    """Hypotheses of the ``words`` [B, T] along paths [B, T]; ``terms`` are their log-probabilities.

    To a token's term belongs the link that led to it, and the last link is the ending, so that the terms add up to the path's.
    """
    sentence = torch.arange(len(path), device=path.device)
    stops = F.pad(path, (1, 1)).scatter(1, lengths[:, None] + 1, vertices[:, None] - 1)
    links = log_links[sentence[:, None], stops[:, :-1], stops[:, 1:]]
    ends = links.gather(1, lengths[:, None])[:, 0].tolist()
    steps = (terms + links[:, :-1]).tolist()
    rows = zip(words.tolist(), steps, lengths.tolist(), ends, strict=True)
    return [hypothesis(tokens[:count], step[:count], end) for tokens, step, count, end in rows]


def _between(said: Tensor, vertices: Tensor) -> Tensor:
    """[B, L] with minus infinity at start, end and beyond, where no word is said."""
    vertex = torch.arange(said.shape[1], device=said.device)
    return said.masked_fill((vertex == 0) | (vertex >= vertices[:, None] - 1), IMPOSSIBLE)
