"""`--rerank` of `translate` and `eval`: what it takes, said before anything is loaded."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.cli.machine import MachineOptions, open_translator
from tfm_cli.cli.render import Screen
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry, that_obey
from tfm_cli.folder import read_config

if TYPE_CHECKING:
    from tfm_cli.engines.choice import Wish
    from tfm_cli.translator import Translator


def open_ranked(
    wish: "Wish", ranker: str | None, machine: MachineOptions, screen: Screen, one_by_one: bool = False
) -> "Translator":
    """`open_translator`, with the model folder ``ranker`` as judge of the candidates where one is named.

    Raises:
        TfmError: the model gives one candidate only, or the judge has another tokenizer or does not write from left to right.
    """
    if ranker is None:
        return open_translator(wish, machine, screen, one_by_one)
    _check(wish, ranker)
    from tfm_cli.engines.rerank import MEAN, Reranked
    from tfm_cli.translator import Translator

    writer = open_translator(wish, machine, screen, one_by_one)
    judge = open_translator(replace(wish, folders=[ranker], options=MEAN), machine, screen, one_by_one)
    return Translator(Reranked(writer.engine, judge.engine), writer.tokenizers)


def _check(wish: "Wish", ranker: str) -> None:
    model, judge = read_config(Path(wish.folders[0])), read_config(Path(ranker))
    family = model["family"]
    if "length_beam" not in family_entry(family).obeys:
        raise TfmError(
            f"the model is {family}, which writes one candidate only"
            if family != "autoregressive"
            else "an autoregressive model ranks its hypotheses itself",
            where="--rerank",
            fix=f"It is for the families {' and '.join(that_obey('length_beam'))}.",
        )
    if family == "oneshot" and model["settings"].get("length") != "predict":
        raise TfmError(
            "this model writes until END, one candidate only",
            where="--rerank",
            fix="Leave it out, or train with --length predict.",
        )
    if wish.options.length_beam == 1:
        raise TfmError("there is one length, nothing to choose from", where="--rerank", fix="Add --length-beam 5.")
    if judge["family"] != "autoregressive":
        raise TfmError(
            f"a judge writes from left to right, and this model is {judge['family']}",
            where=f"--rerank {ranker}",
            fix="Name an autoregressive model.",
        )
    if judge["tokenizer_fingerprint"] != model["tokenizer_fingerprint"]:
        raise TfmError(
            f"this model has another tokenizer than {wish.folders[0]}",
            where=f"--rerank {ranker}",
            fix="Name one that was trained with the same tokenizer.",
        )
