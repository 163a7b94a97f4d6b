"""What decides the pairs that are written, and so whether a folder is what would be written anew."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data.dataset import DataFolder, is_current


@dataclass(frozen=True)
class Plan:
    """What decides every pair that is written; two starts with equal plans write the same folder.

    In int8 on torch nearly so: there a sentence's numbers depend a little on its batch. ``teacher`` is the fingerprint of the
    model, run by ``engine`` in ``precision``, the number type itself and never "auto"; ``originals`` is the share of pairs
    that are kept as they are, drawn by ``seed``; ``monolingual`` is the fingerprint of the `Monolingual` text.
    """

    teacher: str
    search: DecodeOptions
    engine: str = "torch"
    precision: str = "float32"
    originals: float = 0.0
    seed: int = 1
    monolingual: str = ""

    def fingerprint(self, data: DataFolder) -> str:
        """SHA-256 over the plan and the data."""
        content = json.dumps({"data": data.fingerprint, **asdict(self)}, sort_keys=True)
        return sha256(content.encode()).hexdigest()


def is_distilled(data: DataFolder, output: Path, plan: Plan) -> bool:
    """Whether ``output`` is what this plan writes."""
    return is_current(output, plan.fingerprint(data))
