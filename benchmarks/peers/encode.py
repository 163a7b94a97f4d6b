"""One joint BPE vocabulary for all peers, and the training text in it; run by a peer's Python, which has sentencepiece.

    python encode.py FOLDER SOURCE TARGET [VOCABULARY]

FOLDER holds ``train.SOURCE`` and ``train.TARGET``. Beside them come ``bpe.model``, ``train.bpe.*`` (pieces with blanks between
them), the vocabulary as eole and as JoeyNMT read it, and ``lengths.json`` with the length of each pair in tokens, END counted.
"""

import collections
import json
import sys
from pathlib import Path

import sentencepiece


def main() -> None:
    folder, languages = Path(sys.argv[1]), sys.argv[2:4]
    size = int(sys.argv[4]) if len(sys.argv) > 4 else 8000
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(folder / f"train.{language}") for language in languages),
        model_prefix=str(folder / "bpe"),
        vocab_size=size,
        model_type="bpe",
        character_coverage=1.0,
        normalization_rule_name="identity",
        unk_id=0,
        pad_id=1,
        bos_id=2,
        eos_id=3,
        num_threads=2,
        minloglevel=1,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model"))
    seen: collections.Counter[str] = collections.Counter()
    lengths = []
    for language in languages:
        lines = (folder / f"train.{language}").read_text(encoding="utf-8").splitlines()
        rows = model.encode(lines, out_type=str)
        seen.update(piece for row in rows for piece in row)
        lengths.append([len(row) + 1 for row in rows])
        (folder / f"train.bpe.{language}").write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    (folder / "vocabulary.joeynmt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    # eole adds its own control tokens to the rest.
    (folder / "vocabulary.eole").write_text("".join(f"{p}\t{seen[p]}\n" for p in pieces[4:]), encoding="utf-8")
    facts = {"times": 1, "lengths": list(zip(*lengths, strict=True))}
    (folder / "lengths.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
