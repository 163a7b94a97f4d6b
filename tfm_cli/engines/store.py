"""Other forms of a network, kept beside their model: made once, proved, whole or not at all, made anew when the model changes."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from tfm_cli.errors import TfmError
from tfm_cli.folder import WEIGHTS, read_config
from tfm_cli.version import VERSION

ABOUT = "tfm.json"  # the file in the folder of a network that says how it was made
REFUSED = "refused.json"  # the one file in the place of a network that did not pass the proof
_VERSION = 1  # of what is written: another one makes all networks anew
_MAKING, _ABANDONED = ".making-", 3600.0  # seconds after which what was begun is no one's any more
_TRIES = 3  # at a model that is replaced while it is read


class Unsuited(TfmError):
    """A network cannot be had in another form, and goes on in the one that it has."""


@dataclass(frozen=True)
class Form:
    """What a network is made into: the ``name`` of the subfolder of a model folder that keeps it, and how it is made.

    ``fill`` writes one that is proved, and `ABOUT` with it, into an empty folder: of a model folder, in a precision; it raises
    `Unsuited` where there is none, which is remembered. ``makers`` are versions, or properties of the machine, on which that
    depends. One that ``is_code`` runs with those makers only, and is kept in the user's cache alone: a model folder may come
    from anybody. ``telling`` says that one is being made of the model "{}".
    """

    name: str
    telling: str
    fill: Callable[[Path, Path, str], None]
    makers: Callable[[], list[str]]
    is_code: bool = False

    def kept(self, folder: Path, precision: str, tell: Callable[[str], None]) -> Path:
        """The network of a model folder in this form, from where it is kept or made now.

        It is kept in the model folder, and where that cannot be written to, in the user's cache; code only there. Its name
        holds a fingerprint of the weights and the configuration, so that one of other weights is never taken, nor half a one:
        it gets its name when it is whole.

        Args:
            precision: of its weights.
            tell: told when one has to be made.

        Raises:
            Unsuited: there is no such network, it translates differently, or there is no place to keep it.
            TfmError: the folder holds no model, or a damaged one.
        """
        for _ in range(_TRIES):
            name = self._name(folder, precision)
            kept = next((place / name for place in self._places(folder) if self._is_whole(place / name)), None)
            if kept is None:
                tell(self.telling.format(folder))
                kept = self._made(folder, name, precision)
            if kept is not None:
                if reason := self._refusal(kept):
                    raise Unsuited(reason, where=str(folder))
                return kept
        raise Unsuited("the weights changed each time when this was almost made", where=str(folder))

    def _name(self, folder: Path, precision: str) -> str:
        return f"{self._prefix(precision)}{fingerprint(folder)[:16]}"

    def _prefix(self, precision: str) -> str:
        """How the names of all networks begin of which one follows the other."""
        makers = hashlib.sha256(json.dumps(self.makers()).encode()).hexdigest()[:8] if self.is_code else ""
        return f"{precision}-{makers}-" if makers else f"{precision}-"

    def _places(self, folder: Path) -> Iterator[Path]:
        """Where networks of a model may be kept, the best first."""
        if not self.is_code:
            yield folder / self.name
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        try:
            cache = Path(base) if base else Path.home() / ".cache"
        except RuntimeError:  # a user whom the system does not know, as in many a container
            return
        yield cache / "tfm" / self.name / hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]

    def _made(self, folder: Path, name: str, precision: str) -> Path | None:
        """A new network, or the note that it was refused, in the first place that takes it; None where the weights are others
        now.

        Raises:
            Unsuited: no place takes it.
        """
        failures = []
        for place in self._places(folder):
            fresh = place / f"{_MAKING}{name}-{token_hex(8)}"
            try:
                fresh.mkdir(parents=True)
                self._fill(fresh, folder, precision)
                if name != self._name(folder, precision):
                    return None
                return self._put_in_place(fresh, place / name, self._prefix(precision))
            except OSError as error:
                failures.append(f"{place}: {error.strerror or error}")
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        why = "; ".join(failures) or "this user has no home"
        raise Unsuited(f"what is made of it cannot be written ({why})", where=str(folder))

    def _fill(self, fresh: Path, folder: Path, precision: str) -> None:
        """Write a proved network into an empty folder, or why there is none."""
        try:
            self.fill(fresh, folder, precision)
        except Unsuited as error:
            for file in fresh.iterdir():
                file.unlink()
            note = {"reason": error.what, "by": self.makers()}
            (fresh / REFUSED).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")

    def _refusal(self, kept: Path) -> str | None:
        """Why these versions refused a network; None where they did not."""
        try:
            note = json.loads((kept / REFUSED).read_text(encoding="utf-8"))
            return str(note["reason"]) if note["by"] == self.makers() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _is_whole(self, kept: Path) -> bool:
        return (kept / ABOUT).is_file() or self._refusal(kept) is not None

    def _put_in_place(self, fresh: Path, final: Path, prefix: str) -> Path:
        """Give a whole folder its name; where another process was faster, its folder is as good. Those before it go."""
        if not self._is_whole(final):
            discard(final)  # what is left of one
        try:
            fresh.rename(final)
        except OSError:
            if not self._is_whole(final):
                raise
        for other in final.parent.iterdir():
            if other.name.startswith(prefix) and other != final:
                discard(other)
            elif other.name.startswith(_MAKING) and _age(other) > _ABANDONED:
                shutil.rmtree(other, ignore_errors=True)
        return final


def fingerprint(folder: Path) -> str:
    """SHA-256 of the weights, and of what in the configuration decides how they are read."""
    config, file = read_config(folder), folder / WEIGHTS
    try:
        with file.open("rb") as stream:
            weights = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise TfmError("the weights are missing", where=str(file), fix="Copy the model folder again.") from error
    except OSError as error:
        raise TfmError(f"cannot be read: {error.strerror or error}", where=str(file)) from error
    meaning = [_VERSION, weights, config["family"], config["shape"], config["tokenizer_fingerprint"]]
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def discard(kept: Path) -> None:
    """Delete what is kept. It loses its name first, so that no half of it is ever found under it."""
    gone = kept.with_name(f"{_MAKING}{token_hex(8)}")
    try:
        kept.rename(gone)
    except OSError:  # it is gone already, or may not be changed
        return
    shutil.rmtree(gone, ignore_errors=True)


def _age(path: Path) -> float:
    """Seconds since it was last changed; 0 where it is gone by now."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _convert(fresh: Path, folder: Path, precision: str) -> None:
    from tfm_cli.engines.convert import convert
    from tfm_cli.engines.proof import prove

    convert(folder, fresh, precision)
    prove(folder, fresh, precision)


def _of_ctranslate2() -> list[str]:
    import ctranslate2

    return [VERSION, ctranslate2.__version__]


FOR_CTRANSLATE2 = Form("ctranslate2", "Converting {} for CTranslate2, once.", _convert, _of_ctranslate2)
