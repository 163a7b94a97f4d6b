"""Writing a small file whole or not at all."""

from pathlib import Path


def write_whole(path: str | Path, text: str) -> None:
    """Write UTF-8 text beside ``path`` first and move it there, so that no half file is ever seen."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(text, encoding="utf-8", newline="\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
