"""Parts of a network as generated code for one sentence on a CPU (torch.export, AOTInductor): written, proved, loaded."""

import hashlib
import json
import logging
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.device import complaint, cpp_compiler
from tfm_cli.engines.store import ABOUT, Form, Unsuited
from tfm_cli.errors import TfmError
from tfm_cli.model import load_model
from tfm_cli.transformer.attention import FUSED_FROM
from tfm_cli.transformer.family import Family
from tfm_cli.version import VERSION

LONGEST = FUSED_FROM  # positions of a row; attention to more takes another way
_LENGTHS = ((2, 3), (24, 9), (61, 40))  # of the proof's rows, and of what they read
# What rounding in another order may make: the largest difference of a number, of size 1 to 10, and the share of other words.
_TOLERANCES = {"float32": (1e-3, 0.0), "bfloat16": (0.25, 0.1)}
_WITHOUT = "go without: --no-compile."
_EXAMPLE = (26, 13)  # lengths of no meaning

Run = Callable[..., tuple[Tensor, ...]]


class _Encoder(nn.Module):
    """States [1, S, D] of x [1, S, D]."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.stack = family.network.encoder

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.stack(x, None),)


class _Decoder(nn.Module):
    """States [1, T, D] of x [1, T, D], which sees all of itself and of memory [1, S, D]."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.stack = family.network.decoder

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor]:
        return (self.stack(x, memory, None, causal=False),)


class _Words(nn.Module):
    """Of states [N, D] the likeliest ids [N] and their log-probabilities [N] after a bias [V], both float32."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.weight = nn.Parameter(family.network.output_weight.detach(), requires_grad=False)

    def forward(self, states: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        best = (F.linear(states, self.weight).float().log_softmax(-1) + bias).max(1)
        return best.indices, best.values


@dataclass(frozen=True)
class Part:
    """A part of a network, which ``make`` takes out of a family: how many rows [1, T, D] it reads, or [T, D] where ``is_flat``
    and with them a bias [V]."""

    make: Callable[[Family], nn.Module]
    rows: int
    is_flat: bool = False

    def inputs(self, family: Family, lengths: tuple[int, int], draw: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        weight = family.network.output_weight
        vocabulary, dim = weight.shape
        if self.is_flat:
            return draw(lengths[0], dim).to(weight), draw(vocabulary)
        return tuple(draw(1, length, dim).to(weight) for length in lengths[: self.rows])

    def write(self, family: Family, file: Path) -> None:
        """Generate the code, for rows of any length."""
        lengths = [
            {0 if self.is_flat else 1: torch.export.Dim(f"length_{i}", min=2, max=LONGEST)} for i in range(self.rows)
        ]
        dynamic = (*lengths, None) if self.is_flat else tuple(lengths)
        inputs = self.inputs(family, _EXAMPLE, torch.zeros)
        program = torch.export.export(self.make(family).eval(), inputs, dynamic_shapes=dynamic)
        # Weights are brought into the order in which the CPU reads them once, and threads are as many as there are in use.
        settings = {"freezing": True, "cpp.dynamic_threads": True}
        torch._inductor.aoti_compile_and_package(program, package_path=str(file), inductor_configs=settings)


PARTS: Mapping[str, Part] = {"encoder": Part(_Encoder, 1), "decoder": Part(_Decoder, 2), "words": Part(_Words, 1, True)}


class Damaged(Exception):
    """Code that is kept cannot be run."""


def load_code(kept: Path) -> dict[str, Run]:
    """What runs the code in a folder, by the names of `PARTS`; one caller after the other.

    Raises:
        Damaged: it is not what was written, or does not load.
    """
    try:
        if json.loads((kept / ABOUT).read_text(encoding="utf-8"))["sha256"] != _sums(kept):
            raise Damaged("a file is not what was written")
        return {name: _loaded(kept / f"{name}.pt2") for name in PARTS}
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise Damaged(str(error)) from error


def _sums(kept: Path) -> dict[str, str]:
    return {name: hashlib.sha256((kept / f"{name}.pt2").read_bytes()).hexdigest() for name in PARTS}


def _loaded(file: Path) -> Run:
    try:
        # What `torch._inductor.aoti_load_package` does after two seconds of imports.
        loader = torch._C._aoti.AOTIModelPackageLoader(str(file), "model", False, 1, -1)
    except (AttributeError, TypeError):  # of another version
        package = torch._inductor.aoti_load_package(str(file))
        return lambda *inputs: tuple(package(*inputs))
    return lambda *inputs: tuple(loader.boxed_run(list(inputs)))


def _generate(fresh: Path, folder: Path, precision: str) -> None:
    """Write the proved code of a model folder into an empty folder."""
    if shutil.which(cxx := cpp_compiler()) is None:
        raise TfmError(
            f"to generate code needs the C++ compiler {cxx}", where=str(folder), fix=f"Install it, or {_WITHOUT}"
        )
    family = load_model(folder, torch.device("cpu"), getattr(torch, precision)).family.eval()
    try:
        with _quiet(), torch.no_grad():
            for name, part in PARTS.items():
                part.write(family, fresh / f"{name}.pt2")
    except OSError:
        raise
    except Exception as error:  # torch.export, Inductor and the compiler each have their own
        raise TfmError(
            f"torch cannot generate code for it here ({complaint(error)})",
            where=str(folder),
            fix=_WITHOUT.capitalize(),
        ) from error
    about = {"precision": precision, "by": _makers(), "sha256": _sums(fresh)}
    (fresh / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    _prove(family, load_code(fresh), precision, folder)


def _prove(family: Family, runs: Mapping[str, Run], precision: str, folder: Path) -> None:
    """Hold the code against the layers that it was made of, on a few random rows.

    Raises:
        Unsuited: it gives something else.
    """
    generator = torch.Generator().manual_seed(1)
    tolerances = _TOLERANCES[precision]
    for name, part in PARTS.items():
        for lengths in _LENGTHS:
            inputs = part.inputs(family, lengths, lambda *size: torch.randn(*size, generator=generator))
            with torch.inference_mode():
                pairs = list(zip(runs[name](*inputs), part.make(family)(*inputs), strict=True))
            for found, expected in pairs:
                is_number = expected.is_floating_point()
                far = (found - expected).abs().max() if is_number else (found != expected).float().mean()
                if not far <= tolerances[0 if is_number else 1]:
                    raise Unsuited(f"the generated {name} differs from its layers by {far:.2g}", where=str(folder))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Dynamo and Inductor have to say, which is no user's concern."""
    loggers = [logging.getLogger(name) for name in ("torch._dynamo", "torch._inductor", "torch.export")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _makers() -> list[str]:
    """What code is made by, and for: the compiler takes every instruction that this processor has."""
    return [VERSION, str(torch.__version__), sys.platform, platform.machine(), *_instructions()]


def _instructions() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features")))
    return sorted(next(flags, [platform.processor()]))


GENERATED = Form("compiled", "Generating code for {}, once; it takes about a minute.", _generate, _makers, is_code=True)
