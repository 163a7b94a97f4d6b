"""`tfm preprocess`: clean and encode the sentence pairs, and say what became of them."""

from contextlib import ExitStack
from pathlib import Path

from tfm_cli.cli.render import Meter, Screen
from tfm_cli.config import Settings
from tfm_cli.data.build import PreprocessReport
from tfm_cli.data.dataset import preprocess
from tfm_cli.data.options import PreprocessOptions

NAMES = {"train": "training", "valid": "validation", "test": "test"}
FEW = 0.01  # of a test set: what scores do not feel


def run(settings: Settings, screen: Screen) -> None:
    """Preprocess and report."""
    options = settings[PreprocessOptions]
    if options.dataset is None:
        settings.require("source", "target")
    with _Meters(screen) as meters:
        report = preprocess(options, meters)
    output = f"{Path(options.output)}/"
    if report.changed:
        screen.say(f"{report.read:,} pairs read and encoded into {output} in {report.seconds:.1f} s")
    else:
        screen.say(f"{output} is up to date: neither text, tokenizer nor options have changed, so nothing was done.")
    _show(report, options, screen)
    screen.next_step("tfm train", "train a model on them")


def _show(report: PreprocessReport, options: PreprocessOptions, screen: Screen) -> None:
    rows = []
    for role, split in report.splits.items():
        means = (f"{tokens / max(split.pairs, 1):.1f}" for tokens in (split.source_tokens, split.target_tokens))
        rows.append((NAMES[role], f"{split.pairs:,}", *means))
    source, target = report.source_language or "source", report.target_language or "target"
    screen.table(("", "pairs", f"tokens, {source}", f"tokens, {target}"), rows)
    dropped = {reason: count for reason, count in report.dropped.items() if count}
    if dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        screen.say(f"Dropped {sum(dropped.values()):,} of {report.read:,} training pairs: {reasons}.")
    else:
        screen.say(f"All {report.read:,} training pairs are kept.")
    if report.held_out:
        screen.say(f"{report.held_out:,} of them are held out for validation (--valid-source names your own).")
    elif "valid" not in report.splits:
        screen.warn("there are no pairs for validation; --valid-source and --valid-target name some")
    _show_doubts(report, options, screen)


def _show_doubts(report: PreprocessReport, options: PreprocessOptions, screen: Screen) -> None:
    for role, split in report.splits.items():
        if split.empty:
            screen.warn(
                f"{split.empty:,} {NAMES[role]} pairs have an empty side; they are kept, and will count in scores"
            )
        if split.long:
            what = f"{split.long:,} {NAMES[role]} pairs are longer than {options.max_length:,} tokens (--max-length)"
            left_out = ", but the validation loss leaves the longest out" if role == "valid" else ""
            screen.warn(f"{what}; they are kept, and will count in scores{left_out}")
        if split.leaked:
            what = f"{split.leaked:,} of {split.pairs:,} {NAMES[role]} sources occur in the training text too"
            if split.leaked < FEW * split.pairs:
                screen.say(f"{what}.")
            else:
                screen.warn(f"{what}, so their scores flatter the model")
    if not (report.source_language and report.target_language):
        screen.say("The languages are unknown; --source-lang and --target-lang let scores fit them.")


class _Meters:
    """A progress display for each split in turn."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._stack = screen, ExitStack()
        self._role, self._done = "", 0
        self._meter: Meter | None = None

    def __call__(self, role: str, done: int, total: int | None) -> None:
        if role != self._role or self._meter is None:
            self._stack.close()
            self._meter = self._stack.enter_context(self._screen.progress(f"Encoding {NAMES[role]}", total, "pairs"))
            self._role, self._done = role, 0
        self._meter.advance(done - self._done)
        self._done = done

    def __enter__(self) -> "_Meters":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
