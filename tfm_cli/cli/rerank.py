"""`--rerank` of `translate` and `eval`: what it takes, said before anything is loaded."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.cli.machine import MachineOptions, open_translator
from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry, obeyed_by, that_obey
from tfm_cli.folder import read_config

if TYPE_CHECKING:
    from tfm_cli.engines.choice import Wish
    from tfm_cli.translator import Translator


def open_ranked(
    wish: "Wish", ranker: str | None, settings: Settings, screen: Screen, one_by_one: bool = False
) -> "Translator":
    """`open_translator`, with the model folder ``ranker`` as judge of the candidates where one is named.

    Where another command's table names it, which may be meant for another model, it is left out of what it does not fit.

    Raises:
        TfmError: the model gives one candidate only, or the judge has another tokenizer or does not write from left to right.
    """
    machine = settings[MachineOptions]
    if ranker and (trouble := obstacle_to_judge(wish, ranker)):
        origin, place, (what, fix) = settings.origin("rerank"), settings.place("rerank"), trouble
        if origin != "link":
            raise TfmError(what, where=place, fix=fix if origin != "file" else f'{fix} Or unset it by --rerank "".')
        screen.say(f"Without {place}: {what}.")
        ranker = None
    if not ranker:
        return open_translator(wish, machine, screen, one_by_one)
    from tfm_cli.engines.rerank import MEAN

    writer = open_translator(wish, machine, screen, one_by_one)
    judge = open_translator(replace(wish, folders=[ranker], options=MEAN, compile=False), machine, screen, one_by_one)
    return judged(writer, judge)


def judged(writer: "Translator", judge: "Translator") -> "Translator":
    """The one whose candidates the other chooses among."""
    from tfm_cli.engines.rerank import Reranked
    from tfm_cli.translator import Translator

    return Translator(Reranked(writer.engine, judge.engine), writer.tokenizers)


def obstacle_to_judge(wish: "Wish", ranker: str) -> tuple[str, str] | None:
    """Why this model cannot be judged by that one, and what to do; None where it can."""
    model = read_config(Path(wish.folders[0]))
    family = model["family"]
    able = that_obey("every_candidate")
    families = f"It is for the families {', '.join(able[:-1])} and {able[-1]}."
    if family == "autoregressive":
        return "an autoregressive model ranks its hypotheses itself", families
    if "every_candidate" not in family_entry(family).obeys:
        return f"the model is {family}, which writes one candidate only", families
    if "every_candidate" not in obeyed_by(family, model["settings"]):
        fix = "Leave it out, or train with --length predict."
        return "this model writes until END, one candidate only", fix
    if wish.options.width == 1:
        beam = "--ctc-beam 10" if family == "ctc" else "--length-beam 5"
        return "there is one candidate, nothing to choose from", f"Add {beam}."
    judge = read_config(Path(ranker))
    if judge["family"] != "autoregressive":
        what = f"a judge writes from left to right, and {ranker} is {judge['family']}"
        return what, "Name an autoregressive model."
    if judge["tokenizer_fingerprint"] != model["tokenizer_fingerprint"]:
        what = f"{ranker} has another tokenizer than {wish.folders[0]}"
        return what, "Name one that was trained with the same tokenizer."
    return None
