"""How the families that write all words at once learn and decode, as options; `OBEYS` tells which are whose."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from tfm_cli.errors import TfmError
from tfm_cli.options import check, option

GROUP = "Non-autoregressive families"


@dataclass(frozen=True)
class NonAutoregressiveOptions:
    """What the model is and how it learns; a family keeps those it obeys among its settings."""

    length: str = option(
        "cap",
        "oneshot: a row of ample length that ends at the first END, or a length predicted from the source.",
        choices=("cap", "predict"),
        group=GROUP,
    )
    cap: int = option(300, "oneshot, maskpredict: longest row, in tokens.", minimum=1, group=GROUP)
    tail_weight: float = option(
        0.05, "oneshot with --length cap: weight of each position right of the first END.", minimum=0, group=GROUP
    )
    length_weight: float = option(
        0.1,
        "oneshot with --length predict, maskpredict: weight of the length's loss against the tokens'.",
        minimum=0,
        group=GROUP,
    )
    glancing: bool = option(
        False,
        "oneshot, ctc, dag: show the model a part of each translation in training, more where it errs more (GLAT).",
        group=GROUP,
    )
    glancing_start: float = option(
        0.5, "Shown share of what is wrong, at the start.", minimum=0, maximum=1, group=GROUP
    )
    glancing_end: float | None = option(
        None,
        "The same at the end of the run (default: 0.3; dag 0.1).",
        minimum=0,
        maximum=1,
        group=GROUP,
    )
    upsample: int = option(2, "ctc: output slots per source token.", minimum=1, maximum=16, group=GROUP)
    vertices: int = option(4, "dag: vertices of the graph per source token.", minimum=1, maximum=32, group=GROUP)

    def __post_init__(self) -> None:
        check(self)
        defaults = {f.name: f.default for f in fields(self)}
        if self.length == "predict" and self.tail_weight != defaults["tail_weight"]:
            raise TfmError(
                "a row whose length is predicted has no tail",
                where="--tail-weight",
                fix="Use --length cap, or leave it out.",
            )
        for name in ("glancing_start", "glancing_end"):
            if not self.glancing and getattr(self, name) != defaults[name]:
                raise TfmError(
                    "this setting of glancing means nothing without it",
                    where="--" + name.replace("_", "-"),
                    fix="Add --glancing, or leave it out.",
                )


@dataclass(frozen=True)
class NonAutoregressiveDecodeOptions:
    """How a translation is written when the model is used."""

    length_scale: float = option(
        1.0,
        "oneshot with --length predict, dag, maskpredict: stretch or shrink the predicted length by this factor.",
        minimum=0.5,
        maximum=2,
        group=GROUP,
    )
    length_beam: int = option(
        1,
        "oneshot with --length predict, maskpredict: lengths tried around the predicted one; the surest wins.",
        minimum=1,
        group=GROUP,
    )
    iterations: int = option(
        4, "maskpredict: passes; each after the first rewrites the least sure tokens.", minimum=1, group=GROUP
    )
    paths: str = option(
        "lookahead",
        "dag: choose each next vertex with its word, by its link alone, or the best path as a whole.",
        choices=("lookahead", "greedy", "viterbi"),
        group=GROUP,
    )
    ctc_beam: int = option(
        1,
        "ctc: beginnings of the translation kept from slot to slot, each summed over its paths; 1 reads the best path.",
        minimum=1,
        maximum=100,
        group=GROUP,
    )
    # For callers that choose among the candidates by other means; no option of a command.
    every_candidate: bool = False

    def __post_init__(self) -> None:
        check(self)

    @property
    def n_best(self) -> int:
        """Translations of one sentence."""
        return self.width if self.every_candidate else 1

    @property
    def width(self) -> int:
        """Candidates written side by side for one sentence."""
        return max(self.length_beam, self.ctc_beam)


_GLANCING = frozenset({"glancing", "glancing_start", "glancing_end"})
OF_PREDICTED_LENGTH = frozenset({"length_scale", "length_beam", "every_candidate"})
_LENGTH = frozenset({"cap", "length_weight"}) | OF_PREDICTED_LENGTH
# Which family obeys what, here and of label smoothing; any other option that the user gives is refused.
OBEYS: Mapping[str, frozenset[str]] = {
    "oneshot": frozenset({"label_smoothing", "length", "tail_weight"}) | _LENGTH | _GLANCING,
    "ctc": frozenset({"upsample", "ctc_beam", "every_candidate"}) | _GLANCING,
    "dag": frozenset({"vertices", "paths", "length_scale"}) | _GLANCING,
    "maskpredict": frozenset({"label_smoothing", "iterations"}) | _LENGTH,
}
