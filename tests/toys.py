"""A toy language for tests that train: its sentences, its tokenizer, its data folder, its trainer."""

import random
from collections.abc import Callable
from pathlib import Path

from tfm_cli.data.dataset import preprocess
from tfm_cli.data.options import PreprocessOptions
from tfm_cli.nonautoregressive.options import NonAutoregressiveOptions
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.training.setup import prepare
from tfm_cli.training.trainer import Trainer
from tfm_cli.transformer.shape import Shape

WORDS = ["ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du", "ka", "ke", "ki", "ko", "ku"]
TINY = Shape(dim=32, ffn_dim=64, heads=4, encoder_layers=1, decoder_layers=1, dropout=0.1)


def sentences(count: int, seed: int = 0, longest: int = 6) -> list[str]:
    """Distinct sentences of the toy language."""
    draw = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(draw.choice(WORDS) for _ in range(draw.randint(2, longest)))] = None
    return list(made)


def write_lines(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def make_data(folder: Path, translate: Callable[[str], str], pairs: int = 300, valid: int = 24) -> Path:
    """A data folder of toy sentences and what ``translate`` makes of them; the tokenizer lies beside it."""
    sources = sentences(pairs + valid)
    targets = [translate(source) for source in sources]
    tokenizer = Tokenizer.train(sources + targets, TokenizerOptions(vocab_size=320))
    Tokenizers(tokenizer, tokenizer).save(folder / "tokenizer")
    files = {
        "source": write_lines(folder / "train.xx", sources[valid:]),
        "target": write_lines(folder / "train.yy", targets[valid:]),
        "valid_source": write_lines(folder / "valid.xx", sources[:valid]),
        "valid_target": write_lines(folder / "valid.yy", targets[:valid]),
    }
    options = PreprocessOptions(
        **{name: str(path) for name, path in files.items()},
        tokenizer=str(folder / "tokenizer"),
        output=str(folder / "data"),
    )
    preprocess(options)
    return folder / "data"


def reverse(sentence: str) -> str:
    return " ".join(reversed(sentence.split()))


def trainer(
    data: Path,
    output: Path,
    shape: Shape = TINY,
    learning: dict[str, object] | None = None,
    validation: dict[str, object] | None = None,
    nonautoregressive: dict[str, object] | None = None,
    **run: object,
) -> Trainer:
    """A trainer on one CPU thread in float32, whose options may be overridden."""
    options = RunOptions(data=str(data), output=str(output), device="cpu", precision="float32", threads=1, **run)  # type: ignore[arg-type]
    learn = LearningOptions(**{"batch_tokens": 256, "learning_rate": 5e-3, "warmup_steps": 50, **(learning or {})})  # type: ignore[arg-type]
    watch = ValidationOptions(**{"patience": 0, "samples": 1, **(validation or {})})  # type: ignore[arg-type]
    writing = NonAutoregressiveOptions(**(nonautoregressive or {}))  # type: ignore[arg-type]
    return prepare(options, learn, watch, shape, nonautoregressive=writing)
