"""`tfm train-tokenizer`: learn the vocabulary and show what it does to the text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tfm_cli.cli.render import Meter, Screen
from tfm_cli.config import Settings
from tfm_cli.data.corpora import open_table
from tfm_cli.data.options import TableOptions
from tfm_cli.errors import TfmError
from tfm_cli.recipes import vocabulary
from tfm_cli.text.corpus import read_lines
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import FILES, RESERVED, Tokenizer, Tokenizers, is_unspaced

SAMPLE = 2000  # lines of each text that the figures and examples come from
EXAMPLES = 2  # of each text


@dataclass(frozen=True)
class TrainingText:
    """A file, or a column of a table."""

    name: str
    lines: Callable[[], Iterable[str]]


def run(settings: Settings, screen: Screen) -> None:
    """Train, report, write."""
    options = settings[TokenizerOptions]
    output = Path(options.output)
    groups = _texts(settings)
    samples: dict[str, list[str]] = {}
    trained, sizes = [], []
    for texts in groups:
        sizes.append(_size(options, texts, screen))
        with screen.progress(f"Reading {', '.join(text.name for text in texts)}", unit="lines") as meter:
            trained.append(Tokenizer.train(_read(texts, samples, meter), replace(options, vocab_size=sizes[-1])))
    tokenizers = Tokenizers(*trained)
    _keep_or_replace(tokenizers, output, options.overwrite)
    for texts, tokenizer, wanted in zip(groups, trained, sizes, strict=True):
        _report(tokenizer, {text.name: samples[text.name] for text in texts}, wanted, screen)
    screen.say(f"\nWritten: {', '.join(str(output / name) for name, _ in tokenizers.files())}")
    screen.next_step("tfm preprocess", "clean and encode the sentence pairs")


def _texts(settings: Settings) -> list[list[TrainingText]]:
    """The texts of each vocabulary. What `preprocess` reads counts where nothing is said for this command itself."""
    options, table = settings[TokenizerOptions], settings[TableOptions]
    given = {"input": options.input, "source": options.source or options.target, "dataset": table.dataset}
    own = [name for name, value in given.items() if value and settings.origin(name) != "link"]
    if "dataset" in own and len(own) > 1:
        raise TfmError("there is text in files and in a table", where="--dataset", fix=f"Leave out --{own[0]}, or it.")
    if own == ["dataset"] or (table.dataset and not own):
        both = _columns(table)
        return [[side] for side in both] if options.separate else [both]
    source, target = _files(options.source, options), _files(options.target, options)
    if not options.separate:
        texts = _files(options.input, options) or source + target
        if not texts:
            raise TfmError("there is no text to learn from", fix="Name files: --input train.de train.en.")
        return [texts]
    if not (source and target):
        raise TfmError("two vocabularies need two texts", where="--separate", fix="Give --source and --target.")
    return [source, target]


def _size(options: TokenizerOptions, texts: Sequence[TrainingText], screen: Screen) -> int:
    """The tokens asked for; ``auto`` looks through the texts, of which a pair has a line in two, or in one if separate."""
    if isinstance(options.vocab_size, int):
        return options.vocab_size
    if any(text.name == "-" for text in texts):
        raise TfmError(
            "the text of a pipe can be read only once, so its size cannot pick that of the vocabulary",
            where="--vocab-size",
            fix="Give a number, such as 8000.",
        )
    lines, characters = 0, set[str]()
    for text in texts:
        for line in text.lines():
            lines += 1
            characters.update(line)
    pairs = lines if options.separate else lines // 2
    size = vocabulary(pairs, len(characters))
    screen.say(f"A vocabulary of {size:,} tokens for {pairs:,} pairs with {len(characters):,} different characters.")
    return size


def _files(paths: Sequence[str], options: TokenizerOptions) -> list[TrainingText]:
    return [TrainingText(path, partial(read_lines, path, options.errors)) for path in paths]


def _columns(table: TableOptions) -> list[TrainingText]:
    """The two sides of a table's training pairs."""
    corpus = open_table(table)["train"]

    def column(i: int) -> Iterator[str]:
        return (pair[i] for pair in corpus.pairs())

    return [TrainingText(f"{corpus.name}, {side}", partial(column, i)) for i, side in enumerate(("source", "target"))]


def _read(texts: Sequence[TrainingText], samples: dict[str, list[str]], meter: Meter) -> Iterator[str]:
    for text in texts:
        sample = samples.setdefault(text.name, [])
        for number, line in enumerate(text.lines(), 1):
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
    for name, lines in samples.items():
        ids = sum(map(len, tokenizer.encode_batch(lines)))
        unspaced = is_unspaced("".join(lines[:100]))
        units = sum(len(line) if unspaced else len(line.split()) for line in lines)
        rows.append((name, f"{ids / max(units, 1):.2f}", "character" if unspaced else "word"))
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
