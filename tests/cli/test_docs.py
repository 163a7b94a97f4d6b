"""What the documents say must be what the program does."""

import re
from pathlib import Path

import pytest

from tfm_cli.cli import app
from tfm_cli.config import Project
from tfm_cli.keys import keys
from tfm_cli.recipes import RECIPES, Recipe
from tfm_cli.transformer.shape import PRESETS

ROOT = Path(__file__).parents[2]
COMMANDS = {command.name: command for command in app.COMMANDS}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Options of other toolkits, in the document that compares them.
FOREIGN = {
    "coming-from.md": {
        "--early-stopping",
        "--ema-decay",
        "--exponential-smoothing",
        "--finetune-from-model",
        "--keep-best",
        "--keep-interval-updates",
        "--keep-last-epochs",
        "--lenpen",
        "--max-tokens",
        "--mini-batch-words",
        "--normalize",
        "--optimizer-delay",
        "--pretrained-model",
        "--store-ema",
        "--update-freq",
    }
}


def test_the_readme_has_a_row_for_every_command() -> None:
    table = re.findall(r"^\| `tfm ([a-z-]+)` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(table) == sorted(COMMANDS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_option_written_in_a_document_exists(document: Path) -> None:
    known = {f"--{key.name}" for command in COMMANDS.values() for key in keys(command.sections).values()}
    known |= {"--config", "--quiet", "--verbose", "--help", "--version", "--swap", "--index-url"}
    # torchrun's
    known |= {"--standalone", "--nproc-per-node", "--nnodes", "--rdzv-id", "--rdzv-backend", "--rdzv-endpoint"}
    known |= {"--max-restarts"}
    known |= {
        "--rounds",
        "--seconds",
        "--warm-up",
        "--peers",
        "--growth",
        "--eole",
        "--eole-length",
        "--skip",
        "--epochs",
        "--only",
    }  # those of benchmarks/
    known |= FOREIGN.get(document.name, set())
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", document.read_text(encoding="utf-8")))
    assert written <= known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_in_a_document_parses(document: Path) -> None:
    lines = re.findall(r"^(?:\S.*\| )?tfm ([a-z].*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    for line in lines:
        words = line.split("#")[0].split("<")[0].split(">")[0].split("|")[0].split()
        assert not isinstance(app.parse(words), int), line


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*/tfm.toml")), ids=lambda path: path.parent.name)
def test_the_examples_have_keys_that_exist(example: Path) -> None:
    project = Project.load(example).check({name: command.sections for name, command in COMMANDS.items()})
    assert {"project", "train"} <= project.tables.keys()


def test_scripts_and_documents_that_the_readme_names_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r"^sh (\S+)", text, re.MULTILINE)
    assert named
    assert [name for name in named if not name.startswith("http") and not (ROOT / name).exists()] == []


def test_the_page_on_training_has_the_recipes_and_presets_of_the_program() -> None:
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    rows = [
        tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in text.splitlines() if line.startswith("| ")
    ]
    start = rows.index(next(row for row in rows if row[0] == "training pairs"))
    assert rows[start + 2 : start + 2 + len(RECIPES)] == [_recipe_row(each) for each in RECIPES]
    start = rows.index(next(row for row in rows if row[0] == "network" and len(row) == 5))
    assert rows[start + 2 : start + 2 + len(PRESETS)] == [
        (
            name,
            f"{values['encoder_layers']} and {values['decoder_layers']}",
            *(f"{values[size]:,}" for size in ("dim", "ffn_dim", "heads")),
        )
        for name, values in PRESETS.items()
    ]


def _recipe_row(recipe: Recipe) -> tuple[str, ...]:
    learning = recipe.learning
    adam = {**learning, **recipe.adam}
    return (
        "more" if recipe.below == float("inf") else f"fewer than {recipe.below:,}",
        f"{recipe.vocabulary:,}",
        recipe.size,
        str(learning["dropout"]),
        f"{learning['batch_tokens']:,}",
        *(f"{each['learning_rate']}, {each['warmup_steps']:,}" for each in (learning, adam)),
    )
