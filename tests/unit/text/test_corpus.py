import gzip
import io
import lzma
import sys

import pytest
import zstandard

from tfm_cli.errors import TfmError
from tfm_cli.text.corpus import count_lines, read_lines, read_pairs
from tfm_cli.text.tokenizer import Tokenizer

INNER = "a\u2028b\u2029c\x85d\ve\ff\x1cg\x1dh\x1ei"


def read(tmp_path, content: bytes, errors: str = "strict") -> list[str]:
    path = tmp_path / "text"
    path.write_bytes(content)
    lines = list(read_lines(path, errors))
    assert count_lines(path) == len(lines)
    return lines


def test_only_newlines_end_a_line(tmp_path) -> None:
    assert read(tmp_path, f"{INNER}\nx\ry\r\n\n".encode()) == [INNER, "x\ry", ""]
    assert read(tmp_path, f"{INNER}\n".encode("utf-16")) == [INNER]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\r\nb\r", ["a", "b"]),
    ],
)
def test_ends_of_lines_and_files(tmp_path, content: bytes, expected: list[str]) -> None:
    assert read(tmp_path, content) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_marks_and_carriage_returns_never_reach_the_tokenizer(tmp_path, encoding: str, end: str) -> None:
    lines = ["Grüße", "我是谁", ""]
    text = "".join(line + end for line in lines)
    content = (
        text.encode(encoding) if "-bom" not in encoding else ("\ufeff" + text).encode(encoding.removesuffix("-bom"))
    )
    tokenizer = Tokenizer.train(lines)
    assert [tokenizer.encode(line) for line in read(tmp_path, content)] == [tokenizer.encode(line) for line in lines]


def test_invalid_utf8_names_file_line_and_byte(tmp_path) -> None:
    content = "\ufeffgut\nschön ".encode() + b"\xff!\nend\n"
    with pytest.raises(TfmError) as caught:
        read(tmp_path, content)
    assert caught.value.where == f"{tmp_path / 'text'}, line 2"
    assert content[14] == 0xFF and "byte 14 (0xff)" in caught.value.what
    assert "--errors replace" in caught.value.fix
    assert read(tmp_path, content, "replace") == ["gut", "schön \ufffd!", "end"]


def test_invalid_utf16(tmp_path) -> None:
    content = "a\nb".encode("utf-16") + b"x"
    with pytest.raises(TfmError, match="UTF-16"):
        list(read_lines(_write(tmp_path, content)))
    assert read(tmp_path, content, "replace")[0] == "a"


def test_nul_is_kept(tmp_path) -> None:
    assert read(tmp_path, b"a\0b\n\0\n") == ["a\0b", "\0"]


def test_compressed_files(tmp_path) -> None:
    text = b"eins\nzwei\r\ndrei"
    frames = zstandard.compress(text[:4]) + zstandard.compress(text[4:])
    for suffix, content in ((".gz", gzip.compress(text)), (".xz", lzma.compress(text)), (".zst", frames)):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(content)
        assert list(read_lines(path)) == ["eins", "zwei", "drei"]
        assert count_lines(path) == 3


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "flipped"])
def test_damaged_files(tmp_path, suffix: str, damage: str) -> None:
    text = b"".join(b"%d line\n" % i for i in range(20_000))
    compress = {
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    }
    whole = compress[suffix](text)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle : middle + 8]) + whole[middle + 8 :]
    path = tmp_path / f"text{suffix}"
    path.write_bytes({"cut": whole[:-5], "garbage": b"no such thing", "flipped": flipped}[damage])
    with pytest.raises(TfmError, match=f"not a whole {suffix} file") as caught:
        list(read_lines(path, "replace"))
    assert caught.value.where == str(path)


def test_standard_input(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\r\nb")))
    assert list(read_lines("-")) == ["a", "b"]


def test_a_missing_file_suggests_its_neighbours(tmp_path) -> None:
    (tmp_path / "train.de").touch()
    with pytest.raises(TfmError, match=r"no such file. Did you mean train.de\?"):
        list(read_lines(tmp_path / "trian.de"))
    with pytest.raises(TfmError, match="no folder"):
        list(read_lines(tmp_path / "no" / "train.de"))
    with pytest.raises(TfmError, match="folder, where a text file is needed"):
        list(read_lines(tmp_path))


def test_pairs_of_different_length_name_both_counts(tmp_path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("1\n2\n3\n")
    target.write_text("1\n2\n")
    for left, right, counts in ((source, target, ("3", "2")), (target, source, ("2", "3"))):
        with pytest.raises(TfmError) as caught:
            list(read_pairs(left, right))
        assert f"{left} has {counts[0]} lines and {right} has {counts[1]}" in caught.value.what
        assert "look for a line that is missing" in caught.value.fix
    target.write_text("x\n\nz\n")
    assert list(read_pairs(source, target)) == [("1", "x"), ("2", ""), ("3", "z")]


def test_both_sides_cannot_be_standard_input() -> None:
    with pytest.raises(TfmError, match="standard input"):
        list(read_pairs("-", "-"))


def test_a_line_of_a_megabyte(tmp_path) -> None:
    assert read(tmp_path, b"x" * 1_000_000 + b"\ny\n") == ["x" * 1_000_000, "y"]


def _write(tmp_path, content: bytes):
    path = tmp_path / "text"
    path.write_bytes(content)
    return path
