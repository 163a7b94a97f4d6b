"""`tfm train-tokenizer`: learn the vocabulary and show what it does to the text."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tfm_cli.cli.render import Meter, Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.text.corpus import read_lines
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import FILES, RESERVED, Tokenizer, Tokenizers, is_unspaced

SAMPLE = 2000  # lines of each file that the figures and examples come from
EXAMPLES = 2  # of each file


def run(settings: Settings, screen: Screen) -> None:
    """Train, report, write."""
    options = settings[TokenizerOptions]
    output = Path(options.output)
    groups = _inputs(options)
    samples: dict[str, list[str]] = {}
    trained = []
    for files in groups:
        with screen.progress(f"Reading {', '.join(files)}", unit="lines") as meter:
            trained.append(Tokenizer.train(_read(files, options.errors, samples, meter), options))
    tokenizers = Tokenizers(*trained)
    _keep_or_replace(tokenizers, output, options.overwrite)
    for files, tokenizer in zip(groups, trained, strict=True):
        _report(tokenizer, {file: samples[file] for file in files}, options.vocab_size, screen)
    screen.say(f"\nWritten: {', '.join(str(output / name) for name, _ in tokenizers.files())}")
    screen.next_step("tfm preprocess", "clean and encode the sentence pairs")


def _inputs(options: TokenizerOptions) -> list[list[str]]:
    """The files of each vocabulary."""
    source, target = list(options.source), list(options.target)
    if not options.separate:
        files = list(options.input) or source + target
        if not files:
            raise TfmError("there is no text to learn from", fix="Name files: --input train.de train.en.")
        return [files]
    if not (source and target):
        raise TfmError("two vocabularies need two texts", where="--separate", fix="Give --source and --target.")
    return [source, target]


def _read(files: Sequence[str], errors: str, samples: dict[str, list[str]], meter: Meter) -> Iterator[str]:
    for file in files:
        sample = samples.setdefault(file, [])
        for number, line in enumerate(read_lines(file, errors), 1):
            if len(sample) < SAMPLE and line.strip():
                sample.append(line)
            yield line
            if number % 1000 == 0:
                meter.advance(1000)


def _keep_or_replace(tokenizers: Tokenizers, output: Path, overwrite: bool) -> None:
    if output.is_file():
        raise TfmError("the output is a file", where=str(output), fix="Name a folder by --output.")
    there = any((output / name).exists() for name in FILES)
    if there and not overwrite and _fingerprint(output) != tokenizers.fingerprint:
        raise TfmError(
            "a different tokenizer is there already, and models may depend on it",
            where=str(output),
            fix="Replace it with --overwrite, or name another --output.",
        )
    tokenizers.save(output)


def _report(tokenizer: Tokenizer, samples: dict[str, list[str]], wanted: int, screen: Screen) -> None:
    characters = sum(len(tokenizer.token(i)) == 1 for i in range(RESERVED, tokenizer.vocab_size))
    merged = tokenizer.vocab_size - RESERVED - characters
    screen.say(
        f"Vocabulary: {tokenizer.vocab_size:,} tokens = {RESERVED} control and byte tokens"
        f" + {characters:,} characters + {merged:,} longer pieces"
    )
    if tokenizer.vocab_size < wanted:
        screen.say(f"The text has no more repeated pieces, so it stays below the {wanted:,} tokens asked for.")
    rows = []
    for file, lines in samples.items():
        ids = sum(map(len, tokenizer.encode_batch(lines)))
        unspaced = is_unspaced("".join(lines[:100]))
        units = sum(len(line) if unspaced else len(line.split()) for line in lines)
        rows.append((file, f"{ids / max(units, 1):.2f}", "character" if unspaced else "word"))
    screen.table(("text", "tokens", "per"), rows)
    screen.say("\nHow it cuts (a space or · is where a token begins):")
    for lines in samples.values():
        for line in [line for line in lines if 15 <= len(line) <= 90][:EXAMPLES] or lines[:EXAMPLES]:
            screen.say(f"  {_cut(tokenizer, line)[:200]}")


def _cut(tokenizer: Tokenizer, line: str) -> str:
    tokens = [tokenizer.token(i) for i in tokenizer.encode(line)]
    return "".join(token if token.startswith(" ") else f"·{token}" for token in tokens).lstrip(" ·")


def _fingerprint(folder: Path) -> str:
    try:
        return Tokenizers.load(folder).fingerprint
    except TfmError:
        return ""  # unreadable, and certainly not the same
