"""Cut the pairs of manythings.org into train, dev and test: python split.py cmn-eng.zip FOLDER

A sentence often stands there with several translations. Its set is chosen by a checksum of the English side, so that all
pairs with one English sentence stay together and no reference of the test set is trained on.
"""

import gzip
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

SHARE = 30  # of this many checksums, one is for dev and one for test


def pairs(archive: str) -> Iterator[tuple[str, str]]:
    """Chinese and English of each line, which reads English, Chinese, licence."""
    with zipfile.ZipFile(archive) as files:
        for line in files.read("cmn.txt").decode("utf-8").split("\n"):
            english, tab, rest = line.partition("\t")
            if tab:
                yield rest.split("\t")[0], english


def chosen(english: str) -> str:
    """The set of a sentence."""
    return {0: "dev", 1: "test"}.get(zlib.crc32(english.encode()) % SHARE, "train")


def write(made: Iterable[tuple[str, str]], folder: Path) -> None:
    """Write the three sets, each as two compressed files."""
    names = [f"{role}.{language}" for role in ("dev", "test", "train") for language in ("zh", "en")]
    with ExitStack() as stack:
        files = {name: stack.enter_context(gzip.open(folder / f"{name}.gz", "wt", encoding="utf-8")) for name in names}
        for chinese, english in made:
            files[f"{chosen(english)}.zh"].write(f"{chinese}\n")
            files[f"{chosen(english)}.en"].write(f"{english}\n")


if __name__ == "__main__":
    write(pairs(sys.argv[1]), Path(sys.argv[2]))
