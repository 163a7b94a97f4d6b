"""How the committed model was made: ``python -m tests.golden.make FOLDER``. Run it only for a new format version."""

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.toys import TINY, make_data, reverse, sentences, trainer
from tfm_cli.model import CONFIG, load_model, save_model
from tfm_cli.translator import Translator


def make(folder: Path) -> None:
    """Train a tiny model to write words in reverse order, and note what it answers."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        data = make_data(work, reverse, pairs=3000)
        learning = {"batch_tokens": 512, "schedule": "linear", "ema": 0.99}
        trainer(data, work / "run", replace(TINY, dropout=0.0), max_steps=1500, learning=learning).run()
        save_model(folder, load_model(work / "run"))
    sources = ["", *sentences(3140)[-12:]]
    translator = Translator.load(folder, device="cpu")
    answers = {f"beam {beam}": translator.translate(sources, beam=beam) for beam in (1, 5)}
    (folder / "expected.json").write_text(json.dumps({"sources": sources, **answers}, indent=1) + "\n")


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    make(Path(sys.argv[1]))
    print((Path(sys.argv[1]) / CONFIG).read_text())
