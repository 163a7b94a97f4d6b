"""The one exception for what a user can mend."""


class TfmError(Exception):
    """A user's mistake: printed as one line on stderr, exit code 2.

    ``what`` says what happened, ``where`` names the file, line or option, ``fix`` says what to do next.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f" {self.fix}" if self.fix else ""
        end = "" if self.what.endswith((".", "?", "!")) else "."
        return f"{place}{self.what}{end}{remedy}"


class Interrupted(Exception):
    """Ctrl-C, after what was at hand has been saved: exit code 130. The message says what was saved."""
