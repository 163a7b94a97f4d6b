"""What ``tfm train-tokenizer`` can be told."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfm_cli.options import AUTO, option


@dataclass(frozen=True)
class TokenizerOptions:
    """One vocabulary for both languages, unless ``separate`` asks for two."""

    input: Sequence[str] = option([], "Text files to learn from, both languages together; - is stdin.", is_path=True)
    source: Sequence[str] = option([], "Text files in the source language, instead of --input.", is_path=True)
    target: Sequence[str] = option([], "Text files in the target language, instead of --input.", is_path=True)
    output: str = option("tokenizer", "Folder to write.", short="-o", is_path=True)
    vocab_size: int | str = option(
        AUTO,
        "Tokens in the vocabulary, 5 control and 256 byte tokens included. auto: by the number of lines and characters.",
        minimum=262,
        words=(AUTO,),
    )
    separate: bool = option(False, "Two vocabularies, one from --source and one from --target.")
    normalization: str = option(
        "none", "Rewrite text before it is split; none keeps every character.", choices=("none", "nfc")
    )
    errors: str = option(
        "strict", "Invalid UTF-8: stop there, or put U+FFFD in its place.", choices=("strict", "replace")
    )
    overwrite: bool = option(False, "Replace a different tokenizer that is already there.")
