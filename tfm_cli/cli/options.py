"""The options of the commands that belong to no other room: init, eval and demo."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfm_cli.options import AUTO, check, option
from tfm_cli.transformer.shape import PRESETS

FILES, SCORING = "Files", "Scoring"


@dataclass(frozen=True)
class InitOptions:
    """What `tfm init` writes into a project file."""

    source: str | None = option(
        None, "Training text in the source language, a sentence a line.", is_path=True, group=FILES
    )
    target: str | None = option(None, "Its translation, line by line.", is_path=True, group=FILES)
    valid_source: str | None = option(None, "Validation text, never trained on.", is_path=True, group=FILES)
    valid_target: str | None = option(None, "Its translation.", is_path=True, group=FILES)
    test_source: str | None = option(
        None, "Test text for `tfm eval`; none is held out by itself.", is_path=True, group=FILES
    )
    test_target: str | None = option(None, "Its translation.", is_path=True, group=FILES)
    source_lang: str | None = option(None, "Language code; guessed from the file's ending (train.zh).", metavar="CODE")
    target_lang: str | None = option(None, "Language code; guessed from the file's ending (train.en).", metavar="CODE")
    preset: str | None = option(
        None, "Network size; auto, by the number of pairs, when not given.", choices=(AUTO, *PRESETS)
    )
    vocab_size: int | None = option(None, "Tokens; by the number of pairs when not given.", minimum=262)
    force: bool = option(False, "Replace a tfm.toml that is already here.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class EvalOptions:
    """What `tfm eval` scores."""

    model: Sequence[str] = option(
        ("run",),
        "Model folder that translates --source; several make an ensemble.",
        short="-m",
        is_path=True,
        metavar="FOLDER",
        group=FILES,
    )
    source: str | None = option(None, "Text to translate and score.", is_path=True, group=FILES)
    reference: Sequence[str] = option([], "One or more files of right translations.", is_path=True, group=FILES)
    hypothesis: str | None = option(
        None, "Score this file instead of translating; - is stdin.", is_path=True, group=FILES
    )
    data: str = option(
        "data", "Folder that preprocess wrote, whose test pairs stand in for these files.", is_path=True, group=FILES
    )
    compare: Sequence[str] = option(
        [], "Other translations, each held against the scored one by paired bootstrap.", is_path=True, group=FILES
    )
    output: str | None = option(None, "Keep the translations in this file.", short="-o", is_path=True, group=FILES)
    rerank: str | None = option(
        None,
        "Autoregressive model that chooses among the candidates of --ctc-beam or --length-beam.",
        is_path=True,
        metavar="FOLDER",
        group=FILES,
    )
    errors: str = option(
        "strict", "Invalid UTF-8: stop there, or put U+FFFD.", choices=("strict", "replace"), group=FILES
    )
    target_lang: str | None = option(
        None,
        "Target language, which picks BLEU's tokenizer; else the model's, or the file's ending.",
        metavar="CODE",
        group=SCORING,
    )
    json: bool = option(False, "Print the scores as JSON.", group=SCORING)


@dataclass(frozen=True)
class DemoOptions:
    """Where `tfm demo` plays."""

    output: str = option("tfm-demo", "Folder for everything the demo writes.", short="-o", metavar="FOLDER")
    overwrite: bool = option(False, "Run it anew in a folder where it ran before.")
