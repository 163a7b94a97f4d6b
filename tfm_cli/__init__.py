"""tfm: a translation toolkit for the command line.

Python users need one class, loaded on first use so that ``import tfm_cli`` stays cheap::

    from tfm_cli import Translator

    translator = Translator.load("run/")
    translator.translate(["我是谁"])
"""

from typing import TYPE_CHECKING

from tfm_cli.version import VERSION

__version__ = VERSION
__all__ = ["Translator", "__version__"]

if TYPE_CHECKING:
    from tfm_cli.translator import Translator


def __getattr__(name: str) -> object:
    if name == "Translator":
        from tfm_cli.translator import Translator

        return Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
