"""`tfm info`: what a model folder holds."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.options import option


@dataclass(frozen=True)
class InfoOptions:
    """Which model."""

    model: str = option("run", "Model folder.", is_path=True, metavar="FOLDER", positional=True)
    json: bool = option(False, "Print the whole configuration as JSON.")


def run(settings: Settings, screen: Screen) -> None:
    """Print a model's card on stdout."""
    options = settings[InfoOptions]
    from tfm_cli.model import CONFIG, WEIGHTS, read_config
    from tfm_cli.text.tokenizer import FILES

    folder = Path(options.model)
    config = read_config(folder)
    size = sum((folder / name).stat().st_size for name in (CONFIG, WEIGHTS, *FILES) if (folder / name).exists())
    if options.json:
        screen.result(json.dumps(config | {"bytes": size}, ensure_ascii=False, indent=2))
        return
    width = max(len(name) for name, _ in facts(config, size))
    for name, value in facts(config, size):
        screen.result(f"{name:<{width}}  {value}")


def facts(config: dict[str, Any], size: int) -> list[tuple[str, str]]:
    """The card's lines, name and value."""
    shape, about, vocabulary, versions = config["shape"], config["about"], config["vocabulary"], config["versions"]
    scores = about.get("scores", {})
    lines = [
        ("languages", f"{about.get('source_language') or '?'} → {about.get('target_language') or '?'}"),
        ("family", config["family"]),
        ("parameters", f"{config['parameters']:,}"),
        (
            "shape",
            f"{shape['encoder_layers']}+{shape['decoder_layers']} layers, width {shape['dim']}, feed-forward "
            f"{shape['ffn_dim']}, {shape['heads']} heads, {shape['norm']}-norm, {shape['positions']} positions",
        ),
        (
            "vocabulary",
            f"{vocabulary['source']:,} shared"
            if vocabulary["shared"]
            else f"{vocabulary['source']:,} source, {vocabulary['target']:,} target",
        ),
        ("training pairs", f"{about['training_pairs']:,}" if "training_pairs" in about else ""),
        ("data", str(about.get("data_fingerprint", ""))[:16]),
        (
            "trained",
            f"{about['steps']:,} steps, {about['epochs']:g} epochs, {about['minutes']:g} minutes"
            if "steps" in about
            else "",
        ),
        ("validation", ", ".join(f"{name} {value:.2f}" for name, value in scores.items())),
        ("signature", "; ".join(f"{name} {text}" for name, text in about.get("signatures", {}).items())),
        ("averaged from", ", ".join(about.get("averaged", []))),
        ("format", str(config["format"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("size", f"{size / 1e6:.1f} MB"),
    ]
    return [(name, value) for name, value in lines if value]
