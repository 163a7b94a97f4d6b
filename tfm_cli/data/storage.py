"""Encoded pairs on disk as Arrow, written once and read by memory map."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Encoded(NamedTuple):
    """A sentence pair as text, and as ids that end with END."""

    source_text: str
    target_text: str
    source: list[int]
    target: list[int]


class SplitWriter:
    """Appends pairs to an Arrow stream; memory holds what one `write` is given."""

    def __init__(self, stream: Any, schema: Any) -> None:
        self._stream, self._schema = stream, schema
        self.pairs = self.source_tokens = self.target_tokens = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, texts: bool) -> Iterator["SplitWriter"]:
        """Start a file; with ``texts`` the raw sentences are kept beside the ids."""
        from pyarrow import lib as pa
        from pyarrow.ipc import new_stream

        schema = {name: pa.list_(pa.int32()) for name in ("source", "target")}
        schema |= {name: pa.string() for name in ("source_text", "target_text") if texts}
        with new_stream(str(path), pa.schema(schema)) as stream:
            yield cls(stream, pa.schema(schema))

    def write(self, pairs: Sequence[Encoded]) -> None:
        """Append ``pairs`` as one record batch."""
        from pyarrow import lib as pa

        if not pairs:
            return
        columns = [_id_lists([getattr(pair, name) for pair in pairs]) for name in ("source", "target")]
        self.source_tokens += len(columns[0].values)
        self.target_tokens += len(columns[1].values)
        if "source_text" in self._schema.names:
            columns += [pa.array([getattr(p, name) for p in pairs], pa.string()) for name in self._schema.names[2:]]
        self._stream.write_batch(pa.record_batch(columns, schema=self._schema))
        self.pairs += len(pairs)


class Split:
    """The pairs of one file that `SplitWriter` wrote, in any order."""

    def __init__(self, path: Path) -> None:
        from datasets.arrow_dataset import Dataset

        self.dataset = Dataset.from_file(str(path))
        table = self.dataset.data
        self._chunks = [
            (*_views(source), *_views(target))
            for source, target in zip(table.column("source").chunks, table.column("target").chunks, strict=True)
        ]
        sizes = [len(chunk[0]) - 1 for chunk in self._chunks]
        self._starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self.lengths: np.ndarray = np.empty((int(self._starts[-1]), 2), np.int32)
        """[N, 2] int32: tokens of source and target, END included."""
        for start, (source_ends, _, target_ends, _) in zip(self._starts, self._chunks, strict=False):
            rows = slice(int(start), int(start) + len(source_ends) - 1)
            self.lengths[rows, 0] = np.diff(source_ends)
            self.lengths[rows, 1] = np.diff(target_ends)

    def __len__(self) -> int:
        return len(self.lengths)

    def pairs(self, indices: Sequence[int] | np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Source and target ids, END included, each an int64 array.

        Raises:
            IndexError: an index is not in ``range(len(self))``.
        """
        rows = np.asarray(indices, np.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"an index is outside of the {len(self)} pairs")
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        found = []
        for chunk, i in zip(chunks.tolist(), (rows - self._starts[chunks]).tolist(), strict=True):
            source_ends, source, target_ends, target = self._chunks[chunk]
            ids = source[source_ends[i] : source_ends[i + 1]], target[target_ends[i] : target_ends[i + 1]]
            found.append((ids[0].astype(np.int64), ids[1].astype(np.int64)))
        return found

    def texts(self, indices: Sequence[int] | np.ndarray | None = None) -> list[tuple[str, str]]:
        """The raw sentences, of all pairs by default; training splits do not keep them.

        Raises:
            ValueError: this split was written without texts.
        """
        if "source_text" not in self.dataset.column_names:
            raise ValueError("the texts of training pairs are not kept")
        rows = self.dataset if indices is None else self.dataset.select(np.asarray(indices, np.int64))
        return list(zip(rows["source_text"], rows["target_text"], strict=True))


def _id_lists(rows: Iterable[list[int]]) -> Any:
    """Lists of ids -> an Arrow list<int32>, past the slow road of one Python object at a time."""
    from pyarrow import lib as pa

    rows = list(rows)
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=ends[1:])
    values = np.fromiter(chain.from_iterable(rows), np.int32, int(ends[-1]))
    return pa.ListArray.from_arrays(ends, values)


def _views(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """An Arrow list<int32> -> its offsets [n + 1] and its flat values, both without a copy."""
    return column.offsets.to_numpy(), column.values.to_numpy()
