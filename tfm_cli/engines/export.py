"""A model folder -> a folder for programs that know nothing of tfm."""

import shutil
from pathlib import Path

from tfm_cli.engines.convert import convert
from tfm_cli.engines.ctranslate2 import ABOUT
from tfm_cli.engines.proof import prove
from tfm_cli.errors import TfmError
from tfm_cli.folder import CARD, read_config, read_tokenizers
from tfm_cli.text.tokenizer import JOINT, SOURCE, TARGET, Tokenizers


def export_ctranslate2(folder: Path, output: Path, quantization: str = "float32", overwrite: bool = False) -> None:
    """Write what ``ctranslate2.Translator`` loads, with the tokenizer and a note how to use both; whole or not at all.

    Raises:
        TfmError: CTranslate2 has no such network, or there is something else at ``output``.
    """
    _check_free(output, overwrite)
    tokenizers = read_tokenizers(read_config(folder), folder)
    fresh = output.with_name(f".{output.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        convert(folder, fresh, quantization)
        prove(folder, fresh, quantization)
        tokenizers.save(fresh)
        (fresh / CARD).write_text(note(read_config(folder), tokenizers, quantization), encoding="utf-8")
        if output.exists():
            shutil.rmtree(output)
        fresh.rename(output)
    except OSError as error:
        raise TfmError(f"cannot be written: {error.strerror}", where=str(output)) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _check_free(output: Path, overwrite: bool) -> None:
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / ABOUT).is_file():
        raise TfmError(
            "there is something else, which no export wrote", where=str(output), fix="Name another --output."
        )
    if not overwrite:
        raise TfmError("it is already there", where=str(output), fix="Name another --output, or add --overwrite.")


def note(config: dict[str, object], tokenizers: Tokenizers, quantization: str) -> str:
    """How to use the folder, with Python that runs as it stands."""
    about = config["about"]
    assert isinstance(about, dict)
    source, target = (JOINT, JOINT) if tokenizers.shared else (SOURCE, TARGET)
    return f"""# Translation model {about.get("source_language") or "?"} → {about.get("target_language") or "?"} for CTranslate2

Weights in {quantization}, made by `tfm export`. Loads in CTranslate2 4; `pip install ctranslate2 tokenizers`, then here:

```python
import ctranslate2
import tokenizers

source = tokenizers.Tokenizer.from_file("{source}")
target = tokenizers.Tokenizer.from_file("{target}")
translator = ctranslate2.Translator(".")


def translate(lines):
    # A space stands before the first word, except in Chinese and Japanese. CTranslate2 adds </s>.
    tokens = [source.encode(" " + line).tokens for line in lines]
    answers = translator.translate_batch(
        tokens,
        beam_size=5,
        return_end_token=True,  # the length that ranks translations counts it
        min_decoding_length=0,
        suppress_sequences=[["<pad>"], ["<s>"], ["<mask>"], ["<blank>"]],
        max_batch_size=1024,
        batch_type="tokens",
    )
    ids = [[target.token_to_id(token) for token in a.hypotheses[0] if token != "</s>"] for a in answers]
    return [target.decode(each, skip_special_tokens=False).removeprefix(" ") for each in ids]
```

The settings are those of `tfm translate`, so are the translations. A source or a translation may have 2,048 tokens.
"""
