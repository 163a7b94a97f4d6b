"""Proof that a converted network is the same network: both engines translate and score a few sentences alike."""

import random
from pathlib import Path

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.ctranslate2 import CTranslate2Engine
from tfm_cli.engines.engine import Sentences
from tfm_cli.engines.store import Unsuited
from tfm_cli.text.tokenizer import RESERVED
from tfm_cli.transformer.special import COUNT, END

LENGTHS = (1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 28, 60)  # of the dozen sentences, in tokens
# Mean difference of a sentence's score under both engines, in nats per token: more is an error. Trained models show below
# 1e-5 in float32, 0.003 in bfloat16 and 0.02 in int8; a wrong weight, position or token moves single sentences by a tenth.
TOLERANCES = {"float32": 1e-3, "float16": 0.02, "int16": 0.05, "bfloat16": 0.15, "int8": 0.15}


def prove(folder: Path, converted: Path, quantization: str) -> None:
    """Hold the network in ``converted`` against its model in ``folder``, which torch reads.

    The sentences are drawn at random from the vocabulary. In float32 their best translations must be the same, or equally good;
    in every type of weights, each translation of torch must have nearly the same score under both.

    Raises:
        Unsuited: they differ.
    """
    from tfm_cli.engines import pytorch

    slow, tokenizers = pytorch.load([folder], "cpu")
    kind = quantization.partition("_")[0]
    quick = CTranslate2Engine(converted, tokenizers, "int8_float32" if kind == "int8" else "float32")
    draw = random.Random(1)
    vocabulary = tokenizers.source.vocab_size
    first = RESERVED if vocabulary > RESERVED else COUNT
    sources = [[*(draw.randrange(first, vocabulary) for _ in range(length)), END] for length in LENGTHS]
    options = DecodeOptions()
    batch = Sentences(sources, None, list(range(len(sources))))
    wanted = [hypotheses[0] for hypotheses in slow.decode(batch, options)]
    found = [hypotheses[0] for hypotheses in quick.decode(batch, options)]
    scored = quick.score(Sentences(sources, [[*h.tokens, END] for h in wanted], batch.lines), options)
    differences = []
    for want, found_here, score in zip(wanted, found, scored, strict=True):
        terms = zip(want.token_log_probs, score.token_log_probs, strict=False)
        differences.append(abs(sum(a - b for a, b in terms)) / len(want.token_log_probs))
        if kind == "float32" and found_here.tokens != want.tokens:
            differences.append(abs(found_here.score - want.score))
    if wrong := [each for each in differences if not each <= TOLERANCES[kind]]:  # so that NaN is wrong
        raise Unsuited(
            f"its translations there are not those of torch (scores differ by {max(wrong):.2g})", where=str(folder)
        )
