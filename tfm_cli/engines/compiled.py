"""A family of one pass whose network is run by generated code where one sentence comes alone.

A product of a few rows is done before Python has called the next: of the time that a sentence takes alone, half goes into
calling. What is generated calls nothing, and joins what belongs together. Batches of several sentences, which have masks and
products worth calling, go through the layers as they are.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfm_cli.engines.codegen import GENERATED, LONGEST, Damaged, Run, load_code
from tfm_cli.engines.store import Unsuited, discard
from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.family import NEVER, NonAutoregressive
from tfm_cli.transformer.family import Family


class CompiledStack(nn.Module):
    """A stack that is run by generated code where there is one sentence, all of it to be seen, and as it is elsewhere."""

    def __init__(self, plain: nn.Module, run: Run) -> None:
        super().__init__()
        self.plain, self.run = plain, run

    def forward(self, *given: Any, **options: Any) -> Tensor:
        """As `Encoder` or `Decoder`: tensors [B, T, D] among ``given``, masks and packings that may be None."""
        tensors = [each for each in given if each is not None]
        fit = all(
            isinstance(x, Tensor) and x.dim() == 3 and len(x) == 1 and 2 <= x.shape[1] <= LONGEST for x in tensors
        )
        if fit and not any(map(_says_something, options.values())):
            return self.run(*tensors)[0]
        found: Tensor = self.plain(*given, **options)
        return found


class CompiledWords:
    """Generated code that finds the likeliest words of a few states; see `NonAutoregressive.likeliest`."""

    def __init__(self, run: Run, vocabulary: int) -> None:
        self.run, self.vocabulary = run, vocabulary
        self._biases: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, states: Tensor, forbidden: Sequence[int]) -> tuple[Tensor, Tensor] | None:
        """Ids [N] and log-probabilities [N] of states [N, D]; None where N is not what the code was made for."""
        if not 2 <= len(states) <= LONGEST:
            return None
        key = tuple(forbidden)
        if key not in self._biases:
            self._biases[key] = torch.zeros(self.vocabulary).index_fill(0, torch.tensor(key, dtype=torch.int64), NEVER)
        ids, log_probs = self.run(states, self._biases[key])
        return ids, log_probs


def _says_something(option: Any) -> bool:
    """Whether an argument is none of None, False and (None, None)."""
    return any(each is not None for each in option) if isinstance(option, tuple) else option not in (None, False)


def use_compiled(
    family: Family, folder: Path, precision: str, tell: Callable[[str], None] = lambda message: None
) -> None:
    """Have generated code run a family loaded from ``folder`` in ``precision``; where there is none yet, make it.

    Raises:
        TfmError: it cannot be made here.
    """
    assert isinstance(family, NonAutoregressive)
    try:
        kept = GENERATED.kept(folder, precision, tell)
        try:
            runs = load_code(kept)
        except Damaged:
            discard(kept)
            runs = load_code(GENERATED.kept(folder, precision, tell))
    except (Unsuited, Damaged) as error:
        why = error.what if isinstance(error, Unsuited) else f"the generated code cannot be loaded: {error}"
        raise TfmError(why, where=str(folder), fix="Go without: --no-compile.") from error
    for name in ("encoder", "decoder"):
        setattr(family.network, name, CompiledStack(getattr(family.network, name), runs[name]))
    family.words = CompiledWords(runs["words"], len(family.network.output_weight))
