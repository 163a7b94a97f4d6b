import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tfm_cli.errors import TfmError
from tfm_cli.model import FORMAT, Model, average_models, build_family, load_model, save_model
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.shape import Shape

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1)


def make(seed: int = 0, text: str = "a b c", separate: bool = False, shape: Shape = SHAPE) -> Model:
    torch.manual_seed(seed)
    first = Tokenizer.train([text], TokenizerOptions(vocab_size=300))
    second = Tokenizer.train(["d e f g"], TokenizerOptions(vocab_size=300)) if separate else first
    tokenizers = Tokenizers(first, second)
    sizes = first.vocab_size, second.vocab_size
    return Model(
        build_family("autoregressive", shape, *sizes), "autoregressive", tokenizers, {}, {"source_language": "xx"}
    )


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_round_trip(tmp_path: Path, tie: str) -> None:
    shape = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, tie=tie)
    model = make(separate=tie != "all", shape=shape)
    save_model(tmp_path, model)
    loaded = load_model(tmp_path)
    assert loaded.shape == shape
    assert loaded.about == {"source_language": "xx"}
    assert loaded.tokenizers.fingerprint == model.tokenizers.fingerprint
    for name, tensor in model.weights().items():
        assert torch.equal(tensor, loaded.weights()[name])
    assert not loaded.family.training
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ".md"}


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    save_model(tmp_path, make())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"format": FORMAT + 1}))
    with pytest.raises(TfmError, match=f"format {FORMAT + 1}"):
        load_model(tmp_path)


def test_a_foreign_tokenizer_is_caught_at_equal_vocabulary_size(tmp_path: Path) -> None:
    save_model(tmp_path, make(text="a b c"))
    other = make(text="x y z")
    assert other.tokenizers.source.vocab_size == make().tokenizers.source.vocab_size
    other.tokenizers.save(tmp_path)
    with pytest.raises(TfmError, match="not the one that this model was trained with"):
        load_model(tmp_path)


class Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch payload-ran",)


def test_a_pickle_is_refused_and_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "model", make())
    (tmp_path / "model" / "model.safetensors").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(TfmError, match="no readable safetensors file"):
        load_model(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(TfmError, match="is a pickle"):
        load_model(tmp_path / "other")
    assert not (tmp_path / "payload-ran").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "damaged"),
        (lambda folder: (folder / "config.json").write_text('{"format": 1}'), "is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), "weights are missing"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer"),
        (lambda folder: (folder / "config.json").unlink(), "not a model folder"),
    ],
)
def test_damaged_folders_name_the_file(tmp_path: Path, damage: object, message: str) -> None:
    save_model(tmp_path, make())
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(TfmError, match=message) as caught:
        load_model(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_weights_of_another_shape(tmp_path: Path) -> None:
    save_model(tmp_path, make())
    weights = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor[:1] for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    with pytest.raises(TfmError, match="do not fit"):
        load_model(tmp_path)


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    model = make()
    with torch.no_grad():
        next(model.family.parameters())[0] = float("nan")
    with pytest.raises(TfmError, match="not finite"):
        save_model(tmp_path / "model", model)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
def test_what_cannot_be_written_leaves_the_model_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*_: object) -> None:
        raise error

    save_model(tmp_path, make())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("tfm_cli.model.save_file", full)
    with pytest.raises(TfmError, match=r"the model cannot be saved \(.*No space left on device\)") as caught:
        save_model(tmp_path, make(seed=2))
    assert (caught.value.where, caught.value.fix) == (str(tmp_path), "Make room, or name another folder.")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_average_refuses_other_settings(tmp_path: Path) -> None:
    first, second = make(), make()
    second.settings["label_smoothing"] = 0.3
    save_model(tmp_path / "first", first)
    save_model(tmp_path / "second", second)
    with pytest.raises(TfmError, match="settings"):
        average_models([tmp_path / "first", tmp_path / "second"])


def test_average_is_the_mean_and_refuses_strangers(tmp_path: Path) -> None:
    models = [make(seed) for seed in range(3)]
    folders = [tmp_path / str(i) for i in range(3)]
    for folder, model in zip(folders, models, strict=True):
        save_model(folder, model)
    _, weights = average_models(folders)
    for name, tensor in weights.items():
        assert torch.allclose(tensor, torch.stack([model.weights()[name] for model in models]).mean(0), atol=1e-6)
    save_model(tmp_path / "other", make(text="x y z"))
    with pytest.raises(TfmError, match="tokenizer fingerprint is not that of"):
        average_models([folders[0], tmp_path / "other"])
