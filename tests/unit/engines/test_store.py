"""Converted networks that are kept: once, whole, by their weights, wherever there is a place."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("ctranslate2")

from tests.toys import sentences
from tests.unit.engines.models import SENTENCES, saved_model, trained_model
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines import ctranslate2, proof, store
from tfm_cli.engines.store import ABOUT, Unsuited
from tfm_cli.errors import TfmError
from tfm_cli.folder import CONFIG, WEIGHTS
from tfm_cli.translator import Translator


@pytest.fixture
def folder(tmp_path):
    return trained_model(tmp_path / "model")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def ignore(message):
    pass


def change_weights(folder, name="network.target_embedding.weight"):
    """Other values in a file of the same size and date."""
    file = folder / WEIGHTS
    before = file.stat()
    weights = load_file(file)
    save_file({**weights, name: weights[name] * 0.5}, file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_made_once_and_told(folder):
    told = []
    first = store.FOR_CTRANSLATE2.kept(folder, "float32", told.append)
    inode = (first / "model.bin").stat().st_ino
    assert first.parent == folder / store.FOR_CTRANSLATE2.name
    assert store.FOR_CTRANSLATE2.kept(folder, "float32", told.append) == first
    assert (first / "model.bin").stat().st_ino == inode
    assert len(told) == 1
    assert str(folder) in told[0]


def test_each_precision_has_its_own(folder):
    one, other = (store.FOR_CTRANSLATE2.kept(folder, precision, ignore) for precision in ("float32", "int8"))
    assert one != other
    assert (other / "model.bin").stat().st_size < (one / "model.bin").stat().st_size
    assert store.FOR_CTRANSLATE2.kept(folder, "float32", ignore) == one


def test_other_weights_make_it_anew_and_the_old_one_goes(folder):
    old = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    kept = store.FOR_CTRANSLATE2.kept(folder, "int8", ignore)
    change_weights(folder)
    new = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    assert new != old
    assert sorted(new.parent.iterdir()) == sorted((new, kept))


def test_another_configuration_makes_it_anew(folder):
    before = store.fingerprint(folder)
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, "about": {"note": "other"}}))
    assert store.fingerprint(folder) == before
    (folder / CONFIG).write_text(json.dumps({**config, "shape": {**config["shape"], "activation": "gelu"}}))
    assert store.fingerprint(folder) != before


def test_what_translates_differently_is_refused_and_not_kept(folder, monkeypatch):
    def spoilt(folder, output, quantization):
        other = trained_model(output.parent / "other")
        change_weights(other, "network.decoder.norm.bias")
        convert(other, output, quantization)
        shutil.rmtree(other)

    from tfm_cli.engines.convert import convert

    monkeypatch.setattr("tfm_cli.engines.convert.convert", spoilt)
    with pytest.raises(Unsuited, match="not those of torch"):
        store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    with pytest.raises(Unsuited, match="not those of torch"):  # and remembered
        store.FOR_CTRANSLATE2.kept(folder, "float32", pytest.fail)
    [kept] = (folder / store.FOR_CTRANSLATE2.name).iterdir()
    assert [file.name for file in kept.iterdir()] == [store.REFUSED]
    note = json.loads((kept / store.REFUSED).read_text())
    (kept / store.REFUSED).write_text(json.dumps({**note, "by": ["older", "versions"]}))
    monkeypatch.setattr("tfm_cli.engines.convert.convert", convert)
    assert (store.FOR_CTRANSLATE2.kept(folder, "float32", ignore) / ABOUT).is_file()


def test_a_network_of_nan_is_refused(folder, tmp_path):
    from tfm_cli.engines.convert import convert

    broken = trained_model(tmp_path / "broken")
    weights = load_file(broken / WEIGHTS)
    name = "network.decoder.norm.bias"
    save_file({**weights, name: weights[name] * float("nan")}, broken / WEIGHTS)
    (tmp_path / "out").mkdir()
    convert(broken, tmp_path / "out")
    with pytest.raises(Unsuited):
        proof.prove(folder, tmp_path / "out", "float32")


def test_weights_replaced_in_the_meantime_are_converted_anew(folder, monkeypatch):
    from tfm_cli.engines.convert import convert

    before = store.fingerprint(folder)

    def slow(folder, output, quantization):
        if store.fingerprint(folder) == before:
            change_weights(folder)
        convert(folder, output, quantization)

    monkeypatch.setattr("tfm_cli.engines.convert.convert", slow)
    found = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    assert found.name == f"float32-{store.fingerprint(folder)[:16]}"
    assert list((folder / store.FOR_CTRANSLATE2.name).iterdir()) == [found]


@pytest.mark.parametrize("file", [ABOUT, "model.bin", "config.json", "shared_vocabulary.json"])
@pytest.mark.parametrize("size", [None, 40])
def test_what_is_damaged_is_made_anew(folder, file, size):
    kept = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    if size is None:
        (kept / file).unlink()
    else:
        os.truncate(kept / file, size)
    assert Translator.load(folder, engine="ctranslate2").translate(SENTENCES[:3]) == Translator.load(
        folder, device="cpu"
    ).translate(SENTENCES[:3])


def test_what_cannot_be_mended_is_unsuited(folder, monkeypatch):
    store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    monkeypatch.setattr(ctranslate2.CTranslate2Engine, "__init__", lambda *given: exec("raise RuntimeError('no')"))
    monkeypatch.setattr(store.Form, "_fill", lambda self, fresh, *rest: (fresh / ABOUT).touch())
    with pytest.raises(Unsuited, match="cannot be loaded"):
        ctranslate2.load(folder, "float32", 1, 1)


def test_a_full_disk(folder, monkeypatch):
    def full(folder, output, quantization):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tfm_cli.engines.convert.convert", full)
    with pytest.raises(Unsuited, match=os.strerror(errno.ENOSPC)):
        store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)


def test_a_user_without_a_home(folder, monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", unknown)
    assert store.FOR_CTRANSLATE2.kept(folder, "float32", ignore).parent == folder / store.FOR_CTRANSLATE2.name


def test_missing_weights_are_named(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(TfmError, match="the weights are missing"):
        store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)


def test_the_proof_sees_a_start_token_without_its_row(folder, tmp_path):
    """The error of another converter: everything right but the embedding of the start token, taken for zero."""
    from tfm_cli.engines.convert import convert

    broken = trained_model(tmp_path / "broken")
    file = broken / WEIGHTS
    weights = load_file(file)
    weights["network.target_embedding.weight"][1] = 0
    save_file(weights, file)
    (tmp_path / "out").mkdir()
    convert(broken, tmp_path / "out")
    with pytest.raises(Unsuited):
        proof.prove(folder, tmp_path / "out", "float32")


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int16", "int8", "int8_bfloat16"])
def test_the_proof_lets_right_networks_pass(folder, tmp_path, kind):
    from tfm_cli.engines.convert import convert

    convert(folder, tmp_path, kind)
    proof.prove(folder, tmp_path, kind)


@pytest.mark.parametrize("blocked", ["file", "unwritable"])
def test_a_folder_that_cannot_be_written_to(folder, tmp_path, blocked):
    if blocked == "file":
        (folder / store.FOR_CTRANSLATE2.name).write_text("in the way")
    elif os.name != "posix" or os.geteuid() == 0:
        pytest.skip("the superuser writes anywhere")
    else:
        folder.chmod(0o500)
    found = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    assert found.parent.parent == tmp_path / "cache" / "tfm" / store.FOR_CTRANSLATE2.name
    assert store.FOR_CTRANSLATE2.kept(folder, "float32", pytest.fail) == found
    change_weights(folder)
    new = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    assert list(found.parent.iterdir()) == [new]
    folder.chmod(0o700)


def test_nowhere_to_keep_it(folder, tmp_path):
    (folder / store.FOR_CTRANSLATE2.name).write_text("in the way")
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(Unsuited, match="cannot be written"):
        store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)


def test_what_a_killed_process_left_is_cleared_away_and_what_runs_is_not(folder):
    kept = folder / store.FOR_CTRANSLATE2.name
    for name, age in ((".making-old-1", 7200), (".making-new-2", 10)):
        (kept / name).mkdir(parents=True)
        os.utime(kept / name, (time.time() - age,) * 2)
    found = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    assert sorted(path.name for path in kept.iterdir()) == sorted([".making-new-2", found.name])


def test_two_processes_at_once(folder):
    """Both have loaded what they need before either begins."""
    code = (
        "import sys; from pathlib import Path; from tfm_cli.engines import convert, proof;"
        "from tfm_cli.engines.store import FOR_CTRANSLATE2; print('ready', flush=True); sys.stdin.readline();"
        "print(FOR_CTRANSLATE2.kept(Path(sys.argv[1]), 'float32', lambda message: None))"
    )
    start = [sys.executable, "-c", code, str(folder)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(start, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(found) == 1
    assert [path.name for path in (folder / store.FOR_CTRANSLATE2.name).iterdir()] == [Path(found.pop()).name]


def test_the_loser_of_a_race_takes_what_is_there(folder):
    final = store.FOR_CTRANSLATE2.kept(folder, "float32", ignore)
    fresh = final.with_name(".making-mine")
    shutil.copytree(final, fresh)
    assert store.FOR_CTRANSLATE2._put_in_place(fresh, final, "float32-") == final
    assert (final / ABOUT).is_file()


@pytest.mark.parametrize("workers", [1, 3])
def test_translations_through_the_translator(folder, workers):
    lines = [*sentences(40), "", *SENTENCES]
    quick = Translator.load(folder, engine="ctranslate2", threads=workers)
    slow = Translator.load(folder, device="cpu")
    assert quick.translate(lines) == slow.translate(lines)
    pairs = list(zip(lines, reversed(lines), strict=True))
    scores = [[found.score for found in each.score(pairs)] for each in (quick, slow)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_what_python_cannot_ask_for(folder):
    with pytest.raises(TfmError, match="ensemble"):
        Translator.load([folder, folder], engine="ctranslate2")
    with pytest.raises(TfmError, match="bfloat16"):
        Translator.load(folder, engine="ctranslate2", precision="bfloat16")
    with pytest.raises(TfmError, match="no engine 'ctranslat2'"):
        Translator.load(folder, engine="ctranslat2")
    with pytest.raises(TfmError, match="on the CPU"):
        Translator.load(folder, engine="ctranslate2", device="cuda")


@pytest.mark.parametrize(
    "options",
    [{"sample": True}, {"no_repeat_ngram": 2}, {"min_length_ratio": 0.5}],
    ids=lambda options: next(iter(options)),
)
def test_python_is_refused_a_search_that_is_only_torch_s(folder, options):
    with pytest.raises(TfmError, match="Use the engine torch"):
        list(Translator.load(folder, engine="ctranslate2").stream(["a b"], DecodeOptions(**options)))


def test_python_is_refused_a_prefix_in_a_beam(folder):
    with pytest.raises(TfmError, match="prefix"):
        list(Translator.load(folder, engine="ctranslate2").stream(["a b"], DecodeOptions(beam=2), prefixes=["a"]))


def test_too_many_tokens_name_the_line(folder):
    translator = Translator.load(folder, engine="ctranslate2")
    with pytest.raises(TfmError, match="2,048 positions") as error:
        list(translator.score([("a b", "a b"), ("a b", "a b " * 2000)]))
    assert error.value.where == "line 2"
    with pytest.raises(TfmError, match="2,048 positions"):
        list(translator.stream(["a b"], DecodeOptions(beam=1), prefixes=["a b " * 2000]))


def test_another_tokenizer_is_refused(folder, tmp_path):
    shutil.copy(saved_model(tmp_path / "stranger") / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(TfmError, match="not the one that this model was trained with"):
        ctranslate2.load(folder, "float32", 1, 1, ignore)
