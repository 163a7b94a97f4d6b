"""Which device, float type and threads are taken, on machines of every kind."""

import os

import pytest
import torch

from tfm_cli.device import pick_device, pick_precision, set_threads
from tfm_cli.errors import TfmError

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def machine(monkeypatch):
    """Pretend that this machine has these accelerators and no other."""

    def has(*kinds):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: kinds.count("cuda"))
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return has


@pytest.mark.parametrize(
    ("told", "environment", "expected"),
    [(2, "3", 2), (None, "3", 3), (None, None, 5), (None, "", 5), (None, "0", 5), (None, "4,2", 5)],
)
def test_threads_are_the_option_then_the_environment_then_the_cores(monkeypatch, told, environment, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert set_threads(told) == expected
    assert torch.get_num_threads() == expected


@pytest.mark.parametrize(
    ("kinds", "expected"), [((), "cpu"), (("cuda",), "cuda"), (("mps",), "mps"), (("cuda", "mps"), "cuda")]
)
def test_auto_takes_the_best_device(machine, kinds, expected):
    machine(*kinds)
    assert pick_device("auto") == torch.device(expected)
    assert pick_device("cpu") == CPU


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "tpu", "cpu:x"])
def test_a_device_that_is_not_there_is_refused_by_name(machine, name):
    machine()
    with pytest.raises(TfmError, match=f"device.* '?{name}") as refused:
        pick_device(name)
    assert refused.value.where == "--device"
    assert refused.value.fix


def test_one_of_several_devices(machine):
    machine("cuda", "cuda")
    assert pick_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(TfmError, match="cuda:2"):
        pick_device("cuda:2")


def test_precision_by_name():
    assert pick_precision("float32", CPU) == torch.float32
    assert pick_precision("bfloat16", CPU) == torch.bfloat16


@pytest.mark.parametrize(
    ("avx512", "amx", "expected"),
    [(False, False, torch.float32), (True, False, torch.bfloat16), (False, True, torch.bfloat16)],
)
def test_auto_precision_on_a_cpu_asks_for_matrix_units(monkeypatch, avx512, amx, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    assert pick_precision("auto", CPU) == expected


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)])
def test_auto_precision_on_a_gpu_begins_with_ampere(monkeypatch, capability, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert pick_precision("auto", torch.device("cuda")) == expected


def test_auto_precision_elsewhere_is_float32():
    assert pick_precision("auto", torch.device("mps")) == torch.float32


def test_one_of_several_processes_takes_the_gpu_of_its_number(machine):
    machine("cuda", "cuda")
    assert pick_device("auto", 1) == pick_device("cuda", 1) == pick_device("cuda:1", 1) == torch.device("cuda:1")
    assert pick_device("cpu", 1) == CPU
    with pytest.raises(TfmError, match="2 GPUs, and process 2"):
        pick_device("auto", 2)
    with pytest.raises(TfmError, match="not cuda:0") as refused:
        pick_device("cuda:0", 1)
    assert "CUDA_VISIBLE_DEVICES" in refused.value.fix


@pytest.mark.parametrize(
    ("told", "environment", "processes", "expected"),
    [(None, None, 2, 2), (None, "1", 2, 2), (None, "3", 2, 3), (1, "1", 2, 1), (None, None, 9, 1), (None, "1", 1, 1)],
)
def test_processes_share_the_cores(monkeypatch, told, environment, processes, expected):
    """torchrun sets OMP_NUM_THREADS=1 where the user has not: that is nobody's wish."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert set_threads(told, processes) == expected
