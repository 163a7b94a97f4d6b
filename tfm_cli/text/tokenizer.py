"""Text to ids and back, exactly: byte-pair encoding over characters (Sennrich et al. 2016), bytes for characters never seen.

Every string survives ``decode(encode(text)) == normalize(text)``. A token holds whole characters, keeps its own leading space,
and never mixes letters, digits and punctuation. So no merge can spell a control name, and text never encodes to one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfm_cli.errors import TfmError
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.transformer import special

if TYPE_CHECKING:
    import tokenizers

FILES = JOINT, SOURCE, TARGET = "tokenizer.json", "source.tokenizer.json", "target.tokenizer.json"
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
RESERVED = special.COUNT + len(BYTES)
# A longer token is a sentence learnt by heart: unspaced scripts would make whole clauses of them.
UNCOUNTED = 8_000
LONGEST_TOKEN = 16

# Chinese and Japanese with their punctuation: no space stands before it, so none is put there.
_EAST_ASIAN = (
    r"\u2E80-\u312F\u31A0-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\uFE30-\uFE4F\uFF00-\uFFEF"
    r"\U0001B000-\U0001B16F\U00020000-\U0003FFFF"
)
EAST_ASIAN_START = re.compile(f"[{_EAST_ASIAN}]")
_UNSPACED = re.compile(rf"[{_EAST_ASIAN}\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF]")

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ"
_LETTER = rf"[\p{{L}}&&[^{_CJK}]]"
_WORD = (
    rf"{_LETTER}[\p{{L}}\p{{M}}\x{{200C}}\x{{200D}}&&[^{_CJK}]]*"  # the joiners stand inside Persian and Hindi words
)
_PIECES = "|".join(
    (
        rf" ?{_WORD}(?:['’]{_WORD})*",
        rf" ?[\p{{N}}&&[^{_CJK}]]",
        rf"[{_CJK}][{_CJK}\p{{M}}]*",
        rf" ?[^\s\p{{L}}\p{{N}}{_CJK}]+",
        r"\s+(?!\S)|\s+",
    )
)


class Tokenizer:
    """A vocabulary and its merges: ids 0 to 4 are the control tokens of `special`, then bytes, characters, merges."""

    def __init__(self, content: str) -> None:
        """``content`` is what a tokenizer.json holds; `train` and `load` are the usual ways here."""
        import tokenizers

        self._content = content
        self._core: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(content)
        self.vocab_size: int = self._core.get_vocab_size()

    @classmethod
    def train(cls, lines: Iterable[str], options: TokenizerOptions | None = None) -> "Tokenizer":
        """Learn from ``lines``, read once and not kept. The same lines give the same tokenizer.

        As they are not counted first, a size of ``auto`` means `UNCOUNTED` tokens here.

        Raises:
            TfmError: no text, or ``options.vocab_size`` has no room for all its characters; it names the smallest size that has.
        """
        from tokenizers import models, trainers

        options = options or TokenizerOptions()
        size = options.vocab_size if isinstance(options.vocab_size, int) else UNCOUNTED
        learner = _pipeline(models.BPE(), options)
        trainer = trainers.BpeTrainer(
            vocab_size=max(size - RESERVED, 0),
            min_frequency=2,
            max_token_length=LONGEST_TOKEN,
            show_progress=False,
        )
        learner.train_from_iterator(map(_with_space, lines), trainer)
        learnt = json.loads(learner.to_str())["model"]
        pieces = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
        characters = sum(len(piece) == 1 for piece in pieces)
        if not characters:
            raise TfmError("there is no text to learn from")
        if characters + RESERVED > size:
            raise TfmError(
                f"{size:,} tokens are too few for the {characters:,} different characters of the text",
                where="--vocab-size",
                fix=f"The smallest size that works is {characters + RESERVED:,} ({RESERVED} are control and byte tokens).",
            )
        # Control tokens are plain entries: as the library's "special" ones they would match inside text.
        vocab = {token: i for i, token in enumerate((*special.NAMES, *BYTES, *pieces))}
        merges = [tuple(merge) for merge in learnt["merges"]]
        core = _pipeline(models.BPE(vocab, merges, byte_fallback=True), options)
        return cls(core.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a tokenizer.json.

        Raises:
            TfmError: it is missing, unreadable, or was not written by `save`.
        """
        try:
            tokenizer = cls(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise TfmError(f"no tokenizer here: {error.strerror}", where=str(path), fix=_HOW) from None
        except Exception as error:  # the library raises bare Exception for bad JSON
            raise TfmError(f"not a tokenizer ({error})", where=str(path), fix=_HOW) from None
        if [tokenizer._core.id_to_token(i) for i in range(special.COUNT)] != list(special.NAMES):
            raise TfmError("this tokenizer was made by another program", where=str(path), fix=_HOW)
        return tokenizer

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(path.name + ".part")
        half.write_text(self._content, encoding="utf-8", newline="\n")
        half.replace(path)

    def encode(self, text: str) -> list[int]:
        """Ids without BEGIN and END; the empty text has none."""
        return self._core.encode(_with_space(text)).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores."""
        return [encoding.ids for encoding in self._core.encode_batch_fast([_with_space(text) for text in texts])]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``; control ids are left out, bytes that make no character become U+FFFD."""
        return self._core.decode([i for i in ids if i >= special.COUNT], skip_special_tokens=False).removeprefix(" ")

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """`decode` for many."""
        return [self.decode(ids) for ids in batch]

    def token(self, id: int) -> str:
        """What ``id`` stands for: ``" the"``, ``"</s>"``, ``"<0xE4>"``.

        Raises:
            IndexError: the vocabulary has no such id.
        """
        token: str | None = self._core.id_to_token(id) if id >= 0 else None
        if token is None:
            raise IndexError(f"{id} is not among the {self.vocab_size} ids of this vocabulary")
        return token

    def normalize(self, text: str) -> str:
        """What `decode` gives back for ``text``: the text itself, or its NFC form if so trained."""
        normalizer = self._core.normalizer
        return normalizer.normalize_str(text) if normalizer else text

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content, the same however the JSON is laid out."""
        return sha256(json.dumps(json.loads(self._content), sort_keys=True).encode()).hexdigest()


class Tokenizers:
    """The tokenizers of the two sides; ``shared`` when both are one."""

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None) -> None:
        self.source = source
        self.target = target or source
        self.shared = self.target is self.source

    @classmethod
    def load(cls, folder: str | Path) -> "Tokenizers":
        """Read what `save` wrote.

        Raises:
            TfmError: ``folder`` holds no tokenizer.
        """
        folder = Path(folder)
        if (folder / JOINT).exists():
            return cls(Tokenizer.load(folder / JOINT))
        if (folder / SOURCE).exists():
            return cls(Tokenizer.load(folder / SOURCE), Tokenizer.load(folder / TARGET))
        raise TfmError(
            "no tokenizer in this folder" if folder.is_dir() else "no such folder", where=str(folder), fix=_HOW
        )

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json, or source.tokenizer.json and target.tokenizer.json; what the other way left is removed."""
        folder = Path(folder)
        for name, tokenizer in self.files():
            tokenizer.save(folder / name)
        for name in (SOURCE, TARGET) if self.shared else (JOINT,):
            (folder / name).unlink(missing_ok=True)

    def files(self) -> Iterator[tuple[str, Tokenizer]]:
        """Each file name with what belongs in it."""
        yield from ((JOINT, self.source),) if self.shared else ((SOURCE, self.source), (TARGET, self.target))

    @property
    def fingerprint(self) -> str:
        """SHA-256 over both."""
        if self.shared:
            return self.source.fingerprint
        return sha256((self.source.fingerprint + self.target.fingerprint).encode()).hexdigest()


def is_unspaced(text: str) -> bool:
    """Whether most of ``text`` is Chinese, Japanese, Thai, Lao, Khmer or Burmese, where a word count means nothing."""
    unspaced = len(_UNSPACED.findall(text))
    return 2 * unspaced > len(text) - text.count(" ")


_HOW = "`tfm train-tokenizer` makes one."


def _with_space(text: str) -> str:
    """A space before the first word, which then is the same token as in mid-sentence; `Tokenizer.decode` takes it off."""
    return text if not text or EAST_ASIAN_START.match(text) else " " + text


def _pipeline(model: Any, options: TokenizerOptions) -> "tokenizers.Tokenizer":
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    core = Tokenizer(model)
    if options.normalization == "nfc":
        core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return core
