"""What ``tfm preprocess`` can be told, and which of it ``tfm train-tokenizer`` can be told too."""

from dataclasses import dataclass

from tfm_cli.options import option

_FILES, _TABLE, _CLEANING = "Text files, line by line", "A table instead of files", "Cleaning of the training pairs"


@dataclass(frozen=True)
class FileOptions:
    """Two text files a set, line by line."""

    source: str | None = option(None, "Training sentences in the source language.", is_path=True, group=_FILES)
    target: str | None = option(None, "Their translations, line by line.", is_path=True, group=_FILES)
    valid_source: str | None = option(None, "Validation sentences.", is_path=True, group=_FILES)
    valid_target: str | None = option(None, "Their translations.", is_path=True, group=_FILES)
    test_source: str | None = option(None, "Test sentences.", is_path=True, group=_FILES)
    test_target: str | None = option(None, "Their translations.", is_path=True, group=_FILES)
    errors: str = option(
        "strict", "Invalid UTF-8: stop there, or put U+FFFD.", choices=("strict", "replace"), group=_FILES
    )


@dataclass(frozen=True)
class TableOptions:
    """A table, and which of its columns hold the two sides."""

    dataset: str | None = option(
        None,
        "Data set of the Hugging Face hub, or a Parquet, CSV, TSV, JSON or Arrow file or folder.",
        may_be_path=True,
        group=_TABLE,
    )
    dataset_config: str | None = option(None, "Configuration of that data set, such as de-en.", group=_TABLE)
    source_column: str | None = option(None, "Column to use instead of `translation`.", group=_TABLE)
    target_column: str | None = option(None, "Column to use instead of `translation`.", group=_TABLE)
    source_lang: str | None = option(None, "Source language, such as de; read off file names such as train.de.")
    target_lang: str | None = option(None, "Target language, such as en; read off file names such as train.en.")


@dataclass(frozen=True)
class PreprocessOptions(TableOptions, FileOptions):
    """Where the sentence pairs come from, and which of them are for training."""

    tokenizer: str = option("tokenizer", "Folder that train-tokenizer wrote.", is_path=True)
    output: str = option("data", "Folder to write.", short="-o", is_path=True)
    valid_size: int | None = option(
        None, "Pairs held out when no validation is given; 2 %, at most 1000, by default; 0 for none.", minimum=0
    )
    overwrite: bool = option(False, "Build again even where nothing has changed.")
    seed: int = option(1, "Another seed holds out other pairs.", minimum=0)

    max_length: int = option(250, "Longest side in tokens, the end of sentence included.", minimum=2, group=_CLEANING)
    max_ratio: float = option(
        9.0, "How many times longer one side may be, in tokens; sides up to 20 always pass.", minimum=1, group=_CLEANING
    )
    deduplicate: bool = option(False, "Keep one of several equal pairs.", group=_CLEANING)
