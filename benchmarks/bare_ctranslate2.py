"""A file translated by CTranslate2 with nothing around it: what `tfm translate` on the same engine is measured against.

    python benchmarks/bare_ctranslate2.py EXPORT INPUT OUTPUT --beam 5 --batch-tokens 1024 --workers 1

EXPORT is what `tfm export` wrote. All lines are read at once, tokenised at once, sorted and batched by CTranslate2 itself.
"""

import argparse
from pathlib import Path

import ctranslate2
import tokenizers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("export", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--compute-type", default="float32")
    arguments = parser.parse_args()
    tokenizer = tokenizers.Tokenizer.from_file(str(arguments.export / "tokenizer.json"))
    translator = ctranslate2.Translator(
        str(arguments.export),
        compute_type=arguments.compute_type,
        inter_threads=arguments.workers,
        intra_threads=arguments.threads,
    )
    lines = arguments.input.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    encoded = tokenizer.encode_batch([" " + line for line in lines])
    answers = translator.translate_batch(
        [each.tokens for each in encoded],
        beam_size=arguments.beam,
        max_batch_size=arguments.batch_tokens,
        batch_type="tokens",
        min_decoding_length=0,
    )
    ids = [[tokenizer.token_to_id(token) for token in answer.hypotheses[0]] for answer in answers]
    texts = tokenizer.decode_batch(ids, skip_special_tokens=False)
    arguments.output.write_text("".join(f"{text.removeprefix(' ')}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    main()
