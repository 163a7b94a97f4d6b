"""What `tfm export` writes is enough for a program that knows nothing of tfm."""

import json
import re
import subprocess
import sys

import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("ctranslate2")

from tests.unit.engines.models import SENTENCES, saved_model, trained_model
from tfm_cli.engines.export import export_ctranslate2
from tfm_cli.engines.store import Unsuited
from tfm_cli.errors import TfmError
from tfm_cli.folder import WEIGHTS
from tfm_cli.transformer.special import END
from tfm_cli.translator import Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_model(tmp_path_factory.mktemp("model") / "run")


@pytest.mark.parametrize("tie", ["all", "decoder"])
def test_the_note_runs_as_it_stands_and_translates_like_tfm(tie, tmp_path):
    folder = saved_model(tmp_path / "run", tie=tie)
    lines = ["", " ", "我是谁", "、the cat", " ".join(SENTENCES)[:1500], "the cat " * 700, *SENTENCES[:20]]
    weights = load_file(folder / WEIGHTS)
    weights["network.target_embedding.weight"][END] = 0  # an end is unlikely, so that long lines reach their cap
    weights["network.target_embedding.weight"][END, 0] = -6
    save_file(weights, folder / WEIGHTS)
    export_ctranslate2(folder, tmp_path / "out")
    note = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", note, re.DOTALL)[1]
    code += "\nimport json, sys\nassert 'torch' not in sys.modules\n"
    code += f"print(json.dumps([translate([line])[0] for line in {lines!r}]))\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    translator = Translator.load(folder, device="cpu")
    wanted = translator.translate(lines)
    assert len(translator.tokenizers.target.encode(wanted[4])) > 256  # CTranslate2's own cap
    found = json.loads(done.stdout)
    assert found == Translator.load(folder, engine="ctranslate2").translate(lines)
    # Over 2,000 steps of a search without an end the two engines' roundings may part.
    longest = lines.index("the cat " * 700)
    assert [*found[:longest], *found[longest + 1 :]] == [*wanted[:longest], *wanted[longest + 1 :]]


def test_int8_is_smaller(folder, tmp_path):
    for kind in ("float32", "int8"):
        export_ctranslate2(folder, tmp_path / kind, kind)
    small, large = ((tmp_path / kind / "model.bin").stat().st_size for kind in ("int8", "float32"))
    assert small < large


def test_only_an_export_is_replaced(folder, tmp_path):
    output = tmp_path / "out"
    export_ctranslate2(folder, output)
    with pytest.raises(TfmError, match="already there"):
        export_ctranslate2(folder, output)
    export_ctranslate2(folder, output, "int8", overwrite=True)
    assert json.loads((output / "tfm.json").read_text())["quantization"] == "int8"
    with pytest.raises(TfmError, match="something else"):
        export_ctranslate2(folder, folder, overwrite=True)
    assert (folder / WEIGHTS).is_file()


def test_an_export_that_was_faster_is_not_overwritten(folder, tmp_path, monkeypatch):
    from tfm_cli.engines import export

    def slow(folder, output, quantization):
        convert(folder, output, quantization)
        monkeypatch.setattr(export, "convert", convert)
        export_ctranslate2(folder, tmp_path / "out", "int8")

    convert = export.convert
    monkeypatch.setattr(export, "convert", slow)
    with pytest.raises(TfmError, match="already there"):
        export_ctranslate2(folder, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "tfm.json").read_text())["quantization"] == "int8"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_stood_there_comes_back_where_the_new_one_cannot_take_its_name(folder, tmp_path, monkeypatch):
    from pathlib import Path

    export_ctranslate2(folder, tmp_path / "out", "int8")
    rename = Path.rename

    def refused(self, target):
        if self.name == "new":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(TfmError, match="Permission denied"):
        export_ctranslate2(folder, tmp_path / "out", overwrite=True)
    assert json.loads((tmp_path / "out" / "tfm.json").read_text())["quantization"] == "int8"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_weight_without_a_place_is_refused_and_nothing_is_left(tmp_path):
    folder = trained_model(tmp_path / "run")
    weights = load_file(folder / WEIGHTS)
    save_file({**weights, "network.extra": weights["network.encoder.norm.bias"]}, folder / WEIGHTS)
    with pytest.raises(Unsuited, match=r"network\.extra"):
        export_ctranslate2(folder, tmp_path / "out")
    missing = {name: value for name, value in weights.items() if name != "network.encoder.norm.bias"}
    save_file(missing, folder / WEIGHTS)
    with pytest.raises(TfmError, match=r"network\.encoder\.norm\.bias"):
        export_ctranslate2(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_damaged_weights_are_named(tmp_path):
    folder = trained_model(tmp_path / "run")
    (folder / WEIGHTS).write_bytes(b"no tensors")
    with pytest.raises(TfmError, match="safetensors"):
        export_ctranslate2(folder, tmp_path / "out")
    (folder / WEIGHTS).unlink()
    with pytest.raises(TfmError, match="missing"):
        export_ctranslate2(folder, tmp_path / "out")
