"""A model folder -> a folder for programs that know nothing of tfm."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.convert import convert
from tfm_cli.engines.proof import prove
from tfm_cli.engines.store import ABOUT
from tfm_cli.errors import TfmError
from tfm_cli.folder import CARD, read_config, read_tokenizers
from tfm_cli.text.tokenizer import EAST_ASIAN_START, JOINT, SOURCE, TARGET, Tokenizers

MAX_SOURCE = 1000  # tokens of a line that are read, as `tfm translate` does unless told otherwise


def export_ctranslate2(folder: Path, output: Path, quantization: str = "float32", overwrite: bool = False) -> None:
    """Write what ``ctranslate2.Translator`` loads, with the tokenizer and a note how to use both; whole or not at all.

    Raises:
        TfmError: CTranslate2 has no such network, or there is something else at ``output``.
    """
    output = output.resolve()
    _check_free(output, overwrite)
    tokenizers = read_tokenizers(read_config(folder), folder)
    work = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
        fresh = work / "new"
        fresh.mkdir()
        convert(folder, fresh, quantization)
        prove(folder, fresh, quantization)
        tokenizers.save(fresh)
        (fresh / CARD).write_text(note(read_config(folder), tokenizers, quantization), encoding="utf-8")
        _check_free(output, overwrite)  # another export may have been faster
        _replace(output, fresh, work / "old")
    except OSError as error:
        raise TfmError(f"cannot be written: {error.strerror or error}", where=str(output)) from error
    finally:
        if work:
            shutil.rmtree(work, ignore_errors=True)


def _replace(output: Path, fresh: Path, old: Path) -> None:
    """Give ``fresh`` the name ``output``; what had it before goes to ``old``, and comes back if that fails."""
    if output.exists():
        output.rename(old)
    try:
        fresh.rename(output)
    except OSError:
        with suppress(OSError):
            old.rename(output)
        raise


def _check_free(output: Path, overwrite: bool) -> None:
    if output == Path.cwd():
        raise TfmError("the current folder cannot be written anew", where=str(output), fix="Name another --output.")
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
    defaults = DecodeOptions()
    source, target = (JOINT, JOINT) if tokenizers.shared else (SOURCE, TARGET)
    return f"""# Translation model {about.get("source_language") or "?"} → {about.get("target_language") or "?"} for CTranslate2

Weights in {quantization}, made by `tfm export`. Loads in CTranslate2 4; `pip install ctranslate2 tokenizers`, then here:

```python
import math
import re

import ctranslate2
import tokenizers

source = tokenizers.Tokenizer.from_file("{source}")
target = tokenizers.Tokenizer.from_file("{target}")
translator = ctranslate2.Translator(".")
UNSPACED = re.compile(r"{EAST_ASIAN_START.pattern}")


def encode(line):
    # A space stands before the first word, except in Chinese and Japanese. CTranslate2 adds </s>.
    if not line.strip():
        return []
    return source.encode(line if UNSPACED.match(line) else " " + line).tokens[:{MAX_SOURCE}]


def translate(lines):
    tokens = [encode(line) for line in lines]
    asked = [each for each in tokens if each]
    longest = max(map(len, asked), default=0)
    answers = translator.translate_batch(
        asked,
        beam_size={defaults.beam},
        length_penalty={defaults.length_penalty},
        max_input_length=0,
        max_decoding_length=math.ceil({defaults.max_length_ratio} * longest) + {defaults.max_length_extra},
        return_end_token=True,  # the length that ranks translations counts it
        min_decoding_length=0,
        suppress_sequences=[["<pad>"], ["<s>"], ["<mask>"], ["<blank>"]],
        max_batch_size=1024,
        batch_type="tokens",
    )
    ids = [[target.token_to_id(token) for token in a.hypotheses[0] if token != "</s>"] for a in answers]
    texts = iter([target.decode(each, skip_special_tokens=False).removeprefix(" ") for each in ids])
    return [next(texts) if each else "" for each in tokens]
```

The settings are those of `tfm translate`, so are the translations: of a line the first {MAX_SOURCE:,} tokens are read, and
an empty one has an empty translation. One difference: lines that are given together share the largest length that a translation
of one of them may have, so that one which does not end by itself may be cut later.
"""
