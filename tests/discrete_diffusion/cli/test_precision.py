"""bfloat16 is refused where nothing multiplies it. What the processor has is its own answer, which
is put into its mouth here; what follows from it runs."""

from __future__ import annotations

import logging
from types import MappingProxyType

import pytest
import torch

from discrete_diffusion.runtime import devices
from discrete_diffusion.runtime.devices import check_units, multiplies_bfloat16

ICE_LAKE = {"architecture": "x86_64", "avx2": True, "avx512_f": True, "avx512_vnni": True}
NO_X86 = {"avx512_bf16": False, "amx_bf16": False}


def processor(monkeypatch, capabilities: dict | None, *, one_dnn: bool = True) -> None:
    """None: a release of torch that does not tell."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: one_dnn)
    if capabilities is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
        return
    found = MappingProxyType(capabilities)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)


@pytest.fixture
def without_units(monkeypatch):
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({**ICE_LAKE, **NO_X86}, False),  # AVX-512 alone is not enough
        ({**ICE_LAKE, **NO_X86, "avx512_bf16": True}, True),
        ({**ICE_LAKE, **NO_X86, "amx_bf16": True}, True),
        ({"architecture": "aarch64", "neon": True, "bf16": True}, True),
        ({"architecture": "ppc64le"}, None),
    ],
)
def test_what_torch_says_of_the_processor(monkeypatch, capabilities, expected):
    processor(monkeypatch, capabilities)
    assert multiplies_bfloat16() is expected
    processor(monkeypatch, capabilities, one_dnn=False)
    assert multiplies_bfloat16() is False


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n\nprocessor\t: 1\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\nbugs\t\t: bf16\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd i8mm bf16 dgh\n", True),
        (None, None),
    ],
)
def test_what_linux_says_where_torch_does_not(monkeypatch, tmp_path, lines, expected):
    path, read = tmp_path / "cpuinfo", devices._linux_cpu_flags
    if lines is not None:
        path.write_text(lines)
    processor(monkeypatch, None)
    monkeypatch.setattr(devices, "_linux_cpu_flags", lambda: read(path))
    assert multiplies_bfloat16() is expected


def test_a_processor_that_nobody_knows_is_warned_about(monkeypatch, caplog):
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: None)
    with caplog.at_level(logging.WARNING):
        check_units("precision", "32-true", on_gpu=False)
        assert not caplog.messages
        check_units("precision", "bf16-mixed", on_gpu=False)
    (line,) = caplog.messages
    assert "precision=bf16-mixed" in line
    assert "precision=32-true" in line


def test_float16_is_for_gpus_and_bfloat16_for_those_that_have_it(monkeypatch):
    for has_units, instead in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr(devices, "multiplies_bfloat16", lambda has=has_units: has)
        with pytest.raises(ValueError, match=f"16-mixed.*trainer.precision={instead}"):
            check_units("trainer.precision", "16-mixed", on_gpu=False)
    check_units("trainer.precision", "16-mixed", on_gpu=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    with pytest.raises(ValueError, match=r"Tesla T4 .* trainer.precision=32-true or .*=16-mixed"):
        check_units("trainer.precision", "bf16-mixed", on_gpu=True)
    with pytest.raises(ValueError, match=r"Tesla T4 .* precision=32-true$"):
        check_units("precision", "bf16-mixed", on_gpu=True)


@pytest.mark.usefixtures("without_units")
@pytest.mark.parametrize(
    "words",
    [
        ["train", "trainer.precision=bf16-mixed", "trainer.accelerator=cpu"],
        ["compare", "algos=[mdlm]", "trainer.precision=bf16-mixed", "model=bd_tiny"],
        ["sample", "checkpoint=nowhere.ckpt", "precision=bf16-mixed"],
        ["evaluate", "checkpoint=nowhere.ckpt", "precision=bf16-mixed"],
    ],
)
def test_commands_refuse_before_anything_is_read(failure, tmp_path, words):
    (tmp_path / "nowhere.ckpt").touch()
    error = failure(*words)
    (key,) = (w.partition("=")[0] for w in words if "precision=" in w)
    assert f"{key}=bf16-mixed: " in error
    assert f"take {key}=32-true, or a GPU" in error
    assert not (tmp_path / "cache").exists()  # nor is data made


@pytest.mark.slow
@pytest.mark.usefixtures("without_units")
def test_a_comparison_on_other_machines_asks_them(monkeypatch):
    from discrete_diffusion.cli import compare_running
    from discrete_diffusion.cli.compare import CompareRequest, run_comparison

    class Reached(Exception):
        pass

    def read(cells):
        raise Reached

    monkeypatch.setattr(compare_running, "read_data", read)
    words = ["algos=[mdlm]", "model=bd_tiny", "trainer.precision=bf16-mixed"]
    with pytest.raises(Reached):
        run_comparison(CompareRequest(words, launcher=["hydra/launcher=submitit_slurm"]))
    with pytest.raises(ValueError, match="no units for bfloat16"):
        run_comparison(CompareRequest(words))
