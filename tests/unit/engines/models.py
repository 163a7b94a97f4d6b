"""Small models of random weights that write sentences of all sorts, for tests that hold engines against each other."""

import shutil
from pathlib import Path

import torch

from tfm_cli.model import Model, build_family, save_model
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, BLANK, END, MASK, PAD

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "dogs", "run", "by"]
SENTENCES = [" ".join(WORDS[(i * i) % 12] for i in range(n, n + 1 + n % 11)) for n in range(40)]
GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


def trained_model(folder: Path) -> Path:
    """A copy of the committed model, which writes words in reverse order."""
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("ctranslate2"))
    return folder


def saved_model(folder: Path, seed: int = 1, **shape: object) -> Path:
    """Save a model whose weights are larger than fresh ones, so that it is sure of what it writes."""
    made = Shape(**{"dim": 32, "ffn_dim": 48, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, **shape})  # type: ignore[arg-type]
    tokenizer = Tokenizer.train(SENTENCES, TokenizerOptions(vocab_size=330))
    other = Tokenizer.train([line.upper() for line in SENTENCES], TokenizerOptions(vocab_size=320))
    tokenizers = Tokenizers(tokenizer) if made.tie == "all" else Tokenizers(tokenizer, other)
    torch.manual_seed(seed)
    family = build_family("autoregressive", made, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    with torch.no_grad():
        for name, parameter in family.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.2)
            elif "norm.weight" in name:
                parameter.uniform_(0.5, 1.5)
            elif "embedding" in name or name == "network.output.weight":
                parameter.mul_(2)
            elif "cross" in name:
                parameter.mul_(6)  # what is written depends on what is read
            elif parameter.dim() == 2:
                parameter.mul_(2)
        output = family.network.output_weight
        output[5:262] *= 0.1  # rarely single bytes
        output[END] = output[263:282:3].sum(0)
        # Control tokens are as good as impossible, as in a trained model: states have a constant in their first place.
        last = (
            family.network.decoder.norm if made.norm == "pre" else family.network.decoder.layers[-1].ffn_residual.norm
        )
        last.weight[0], last.bias[0] = 0, 5
        output[:, 0] = 0
        output[[PAD, BEGIN, MASK, BLANK], 0] = -6
    save_model(folder, Model(family.eval(), "autoregressive", tokenizers))
    return folder
