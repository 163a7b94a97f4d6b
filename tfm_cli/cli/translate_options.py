"""What `translate` can be told besides how to search."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfm_cli.cli.machine import MACHINE
from tfm_cli.errors import TfmError
from tfm_cli.options import check, option


@dataclass(frozen=True)
class TranslateOptions:
    """Where text comes from and goes to, and in what batches."""

    model: Sequence[str] = option(
        ("run",), "Model folder; several make an ensemble.", short="-m", is_path=True, metavar="FOLDER"
    )
    input: str = option("-", "File to translate, one sentence a line; - is stdin.", short="-i", is_path=True)
    output: str = option("-", "File to write, whole or not at all; - is stdout.", short="-o", is_path=True)
    format: str = option(
        "text",
        "text: one translation a line (with --scores or --n-best, as in Moses: index from 0 ||| translation ||| score); "
        "jsonl: one object a line.",
        choices=("text", "jsonl"),
    )
    scores: bool = option(False, "Give each translation's score.")
    target_prefix: str | None = option(
        None, "File with the beginning of each translation, which is kept.", is_path=True, metavar="FILE"
    )
    score: str | None = option(
        None, "Score the translations in this file instead of translating.", is_path=True, metavar="FILE"
    )
    rerank: str | None = option(
        None,
        "Autoregressive model that chooses among the candidates of --ctc-beam or --length-beam.",
        is_path=True,
        metavar="FOLDER",
    )
    errors: str = option(
        "strict", "Invalid UTF-8: stop there, or put U+FFFD in its place.", choices=("strict", "replace")
    )
    batch_size: int | None = option(
        None, "Most sentences in a batch; 1 answers each line before it reads the next.", minimum=1, group=MACHINE
    )
    batch_tokens: int = option(1024, "Most source tokens in a batch.", minimum=1, group=MACHINE)
    max_source_tokens: int = option(
        1000, "Longer lines are cut to this many tokens, with a warning.", minimum=1, group=MACHINE
    )

    def __post_init__(self) -> None:
        check(self)
        if self.score is not None and self.target_prefix is not None:
            raise TfmError("--score translates nothing, so there is no --target-prefix", where="--target-prefix")
        if self.input == "-" and "-" in (self.score, self.target_prefix):
            raise TfmError("standard input cannot be two files at once", where="--input", fix="Name a file.")
