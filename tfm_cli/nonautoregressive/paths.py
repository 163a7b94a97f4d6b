"""Paths through a directed acyclic graph whose vertices say words (Huang et al. 2022): summed, searched, walked.

Of V vertices the first is the start and the last the end, which say nothing; a path goes ever forward from one to the other,
and each vertex between says one token. ``links`` [B, L, L] are the probabilities of going from vertex i to j, 0 unless
i < j < V; ``vertices`` [B] are the graphs' sizes V, L the largest. ``emissions`` [B, L, T] are the log-probabilities of each
sentence's T tokens at each vertex, ``lengths`` [B] the numbers of tokens.
"""

from typing import Any

import torch
from torch import Tensor

IMPOSSIBLE = float("-inf")


def within_reach(lengths: Tensor, vertices: Tensor, tokens: int, size: int) -> Tensor:
    """Where token t can stand, with room for those before and after it: [tokens, B, size] bool."""
    token = torch.arange(tokens, device=lengths.device)[:, None, None]
    vertex = torch.arange(size, device=lengths.device)
    left = lengths[:, None] - token
    return (vertex > token) & (vertex < vertices[:, None] - left) & (left > 0)


def path_sum(links: Tensor, emissions: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """The log-likelihood of each sentence, over all paths with as many vertices as it has tokens: [B], float32 or float64.

    Minus infinity where the graph is too small: V < T + 2.
    """
    total: Tensor = _PathSum.apply(links, emissions, lengths, vertices)
    return total


class _PathSum(torch.autograd.Function):
    """Forward-backward with probabilities, each step scaled to add up to 1, so that a step is a product with the links.

    In double precision what is e^-700 of the likeliest still counts; where all paths of a token are less than that of what
    was likeliest before and after it, its share of the gradient is lost. The gradients of the logs are the shares of all
    paths that use a vertex or a link.
    """

    @staticmethod
    def forward(ctx: Any, links: Tensor, emissions: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
        tokens, sentence = emissions.shape[2], torch.arange(len(links), device=links.device)
        wide = torch.float32 if links.device.type == "mps" else torch.float64  # which has no other
        p, ends = links.to(wide), links[sentence, :, vertices - 1].to(wide)
        said, shift = _scaled(emissions.to(wide), lengths, vertices)
        ahead, scale = _ahead(p, said)
        reached = ahead[lengths, sentence]
        closing = (reached * ends).sum(1)
        within = torch.arange(tokens, device=lengths.device)[:, None] < lengths
        total = closing.log() + (scale.log() + shift).masked_fill(~within, 0).sum(0)
        if any(ctx.needs_input_grad[:2]):
            behind = _behind(p, said, ends, lengths)
            tiny = torch.finfo(wide).tiny
            of_emissions = ahead[1:] * behind[1:]
            passed = of_emissions.sum(2, keepdim=True)
            onward = said.mul_(behind[1:])
            arrived = ahead[:-1] / (passed * scale[..., None]).clamp_min(tiny)
            of_links = torch.bmm(arrived.permute(1, 2, 0), onward.transpose(0, 1))
            of_links[sentence, :, vertices - 1] += reached / closing.clamp_min(tiny)[:, None]
            of_links.masked_fill_(p == 0, 0)  # where no link may be, what one would bring can be infinite in float32
            of_emissions /= passed.clamp_min(tiny)
            ctx.save_for_backward(of_links.to(links.dtype), of_emissions.permute(1, 2, 0).to(emissions.dtype))
        return total.to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_links, of_emissions = ctx.saved_tensors
        scale = grads[0][:, None, None]
        return of_links * scale.to(of_links.dtype), of_emissions * scale, None, None


def _scaled(emissions: Tensor, lengths: Tensor, vertices: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities [T, B, L] of each token at each vertex within its reach, over the highest of them; its log [T, B]."""
    size, tokens = emissions.shape[1:]
    beyond = ~within_reach(lengths, vertices, tokens, size)
    given = emissions.permute(2, 0, 1).masked_fill(beyond, IMPOSSIBLE)
    shift = given.amax(2)
    shift = shift.masked_fill(shift == IMPOSSIBLE, 0)
    return given.sub_(shift[..., None]).exp_(), shift


def _ahead(p: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
    """Where a path is after t tokens, [T + 1, B, L], each a distribution; and the factors [T, B] that made them so."""
    tokens, batch, size = said.shape
    ahead, scale = p.new_zeros(tokens + 1, batch, size), p.new_empty(tokens, batch)
    ahead[0, :, 0] = 1
    for token in range(tokens):
        step = ahead[token + 1]
        torch.bmm(ahead[token, :, None], p, out=step[:, None])
        step *= said[token]
        torch.sum(step, 1, out=scale[token])
        step /= scale[token, :, None].clamp_min(torch.finfo(p.dtype).tiny)
    return ahead, scale


def _behind(p: Tensor, said: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:
    """The probability of what follows when a path is at a vertex after t tokens, scaled: [T + 1, B, L]."""
    tokens, batch, size = said.shape
    behind = p.new_zeros(tokens + 1, batch, size)
    for token in range(tokens, -1, -1):
        here = behind[token]
        if token < tokens:
            onward = said[token] * behind[token + 1]
            torch.bmm(p, onward[..., None], out=here[..., None])
        here += torch.where(lengths == token, 1.0, 0.0).to(p.dtype)[:, None] * ends
        here /= here.amax(1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
    return behind


@torch.no_grad()
def align(log_links: Tensor, emissions: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """The best single path for given sentences: the vertex of each token, [B, T]; beyond a sentence it means nothing."""
    size, tokens = emissions.shape[1:]
    beyond = ~within_reach(lengths, vertices, tokens, size)
    scores = best_scores(log_links, emissions.permute(2, 0, 1).masked_fill(beyond, IMPOSSIBLE))
    return trace(scores, log_links, lengths, vertices)


def best_scores(log_links: Tensor, said: Tensor) -> Tensor:
    """The log-probability of the best path to each vertex that has said n tokens, for n = 0 .. N: [N + 1, B, L].

    Args:
        log_links: [B, L, L], minus infinity where there is no link.
        said: [N, B, L], what a vertex gives to a path whose n-th token it says.
    """
    count, batch, size = said.shape
    scores = log_links.new_full((count + 1, batch, size), IMPOSSIBLE)
    scores[0, :, 0] = 0
    room = torch.empty_like(log_links)
    for n in range(count):
        torch.add(scores[n, :, :, None], log_links, out=room)
        torch.amax(room, 1, out=scores[n + 1])
        scores[n + 1] += said[n]
    return scores


def closed(scores: Tensor, log_links: Tensor, vertices: Tensor) -> Tensor:
    """`best_scores` with the last link to the end: the best path of n tokens, [N + 1, B]."""
    return (scores + _links_into(log_links, vertices - 1)).amax(2)


def trace(scores: Tensor, log_links: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
    """The best path of ``lengths`` [B] tokens, found backward from the end by asking `best_scores` at its vertices: [B, N]."""
    at = vertices - 1
    path = [at.new_zeros(0, len(at))]
    for n in range(len(scores) - 1, 0, -1):
        at = torch.where(n <= lengths, (scores[n] + _links_into(log_links, at)).argmax(1), at)
        path.append(at[None])
    return torch.cat(path).flip(0).T


def _links_into(log_links: Tensor, at: Tensor) -> Tensor:
    """The links [B, L] into vertices [B]."""
    return log_links[torch.arange(len(at), device=at.device), :, at]


def walk(log_links: Tensor, reward: Tensor, vertices: Tensor) -> list[list[int]]:
    """From each vertex to the one with the highest link plus ``reward`` [B, L], from the start to the end: per sentence the
    vertices between."""
    following = (log_links + reward[:, None]).argmax(2).tolist()
    walks = []
    for after, size in zip(following, vertices.tolist(), strict=True):
        at, taken = after[0], []
        while at != size - 1:
            taken.append(at)
            at = after[at]
        walks.append(taken)
    return walks
