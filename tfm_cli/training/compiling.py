"""`--compile`: the family's forward and backward as generated kernels (torch.compile)."""

import logging
import shutil
from importlib.util import find_spec

import torch

from tfm_cli.device import complaint, cpp_compiler
from tfm_cli.errors import TfmError
from tfm_cli.training.learner import Learner
from tfm_cli.transformer import attention
from tfm_cli.transformer.batch import Batch


def compile_family(learner: Learner, batch: Batch) -> None:
    """Compile ``learner.family`` in place, and try it on ``batch`` so that what cannot work is told before training.

    Raises:
        TfmError: a compiler is missing, or torch cannot compile here.
    """
    fix = "Install it, or train without --compile."
    if learner.device.type == "cpu" and shutil.which(cxx := cpp_compiler()) is None:
        raise TfmError(f"torch.compile needs the C++ compiler {cxx} for a CPU", where="--compile", fix=fix)
    if learner.device.type == "cuda" and find_spec("triton") is None:
        raise TfmError("torch.compile needs the package triton for a GPU", where="--compile", fix=fix)
    for name in ("torch._dynamo", "torch._inductor"):
        logging.getLogger(name).setLevel(logging.ERROR)  # where they break a graph is no user's concern
    try:
        for name in ("to_heads", "from_heads"):  # Dynamo breaks on a `Packing` inside of an autograd function
            setattr(attention, name, torch.compiler.disable(getattr(attention, name)))
        learner.family.compile(dynamic=True)
        learner.rehearse(batch)
    except Exception as error:  # Dynamo, Inductor and the compiler each have their own
        raise TfmError(
            f"torch cannot compile the model here ({complaint(error)})",
            where="--compile",
            fix="Train without it.",
        ) from error
