"""What makes a training step fast: nothing is read back from its device, a fused optimiser, and
compiled blocks that compute the same."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from discrete_diffusion.algorithms import ALGORITHMS, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data import BatchStream
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.models import acceleration
from discrete_diffusion.models.acceleration import compile_backbone
from discrete_diffusion.training import EMA, DiffusionModule
from discrete_diffusion.training.callbacks import MovingAverage
from discrete_diffusion.training.optimizers import build_optimizer
from no_read_back import META, Unread
from toy_training import ToyData, make_module, streams

TINY = ("model=bd_tiny", "data.num_plans=60", "data.batch_size=16")
DIT = ("algo.backbone=dit", "model=dit_tiny")
REGIONS = ("algo=masked-features", "data.num_windows=30", "data.batch_size=16")
OF_ROWS = (
    REGIONS,
    (*REGIONS, "algo.objective=ddpm"),
    (*REGIONS, "algo.network_time=random", "algo.mask_rate=0.5"),
)

HAS_COMPILER = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX") or acceleration.CPU_COMPILER) is None,
    reason="there is no C++ compiler here",
)


def module_of(*words: str) -> tuple[DiffusionModule, Batch]:
    """A module and its first batch, not yet on its way to a device."""
    config = complete_data(compose("train", list(words if REGIONS[0] in words else TINY + words)))
    torch.manual_seed(0)
    algorithm, data = build_algorithm(config), build_data(config)
    algorithm.prepare(data.splits["train"].batch())
    batch = next(iter(BatchStream(data, batch_size=16, seed=0)))
    return DiffusionModule(algorithm, bound=data.bound, seed=0, lr=1e-3), batch


def silent_trainer(folder: Path, **options) -> Trainer:
    """A trainer that leaves nothing behind and says nothing."""
    return Trainer(
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        *(("algo=" + name,) for name in ("mdlm", "udlm", "sedd", "gidd", "marginal", "d3pm")),
        *(("algo=" + name,) for name in ("ctmc", "meld", "distill")),
        ("algo=distill", "algo.components=1", "algo.train_on=all_calls"),
        ("algo=d3pm", "forward_process=uniform"),
        *(("algo=" + name, *DIT) for name in ("mdlm", "ar", "bd3lm")),
        *(words for words in OF_ROWS if "masked-features" in ALGORITHMS.names()),
    ],
)
def test_a_step_reads_nothing_back_from_its_device(words, monkeypatch):
    """Loss, gradient, the check that both are finite, clipping, the fused step and the average, on
    the meta device (``no_read_back``). The first step may measure what is the same in all."""
    module, on_host = module_of(*words)
    module.algorithm.loss(on_host, make_generator(0))
    batch = module.on_before_batch_transfer(on_host, 0).to("meta")
    module.to("meta").trainer = trainer = Trainer(accelerator="cpu", logger=False)
    average = MovingAverage(module, device=META, decay=0.9)
    fused_on = import_module("torch.optim.optimizer"), "_get_fused_kernels_supported_devices"
    monkeypatch.setattr(*fused_on, lambda: ["meta"])
    optimizer = build_optimizer(module.algorithm, module.optimizer_options, fused=True)
    for step in range(2):
        optimizer.zero_grad()
        with Unread():
            output = module.algorithm.loss(batch, make_generator(step))
            loss = module.skipped_steps.spread_failure(output.loss)
            loss.backward()
        assert loss.device.type == "meta"
        assert all(p.grad is not None for p in module.algorithm.parameters() if p.requires_grad)
        with Unread():
            module.skipped_steps.on_before_optimizer_step(trainer, module, optimizer)
            module.configure_gradient_clipping(optimizer, 1.0, "norm")
            optimizer.step()
            average.update_parameters(module)
    assert optimizer.found_inf.device.type == "meta"
    assert {state["exp_avg"].device.type for state in optimizer.state.values()} == {"meta"}
    if "packing" in batch.conditions:  # what it is for
        with pytest.raises((RuntimeError, NotImplementedError)):
            module.algorithm.loss(replace(on_host, conditions={}).to("meta"), make_generator(0))


@pytest.mark.parametrize("words", [(), DIT])
def test_a_known_packing_changes_nothing(words):
    module, batch = module_of(*words)
    real = batch.real.clone()
    real[:3, -9:] = False  # a batch of mixed sizes
    x0 = batch.x0.masked_fill(~real, module.algorithm.layout.pad_id)
    for one in (batch, Batch(x0, real)):
        known = module.on_before_batch_transfer(one, 0)
        assert torch.equal(
            module.algorithm.loss(known, make_generator(1)).nelbo,
            module.algorithm.loss(one, make_generator(1)).nelbo,
        )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_step_is_fused_and_its_gradients_are_clipped(tmp_path, precision):
    norms = []
    module = make_module(lr=1e-3)
    step = torch.optim.AdamW.step

    def watched(self, *args, **kwargs):
        closure = kwargs.get("closure") or args[0]
        loss = closure()
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        norms.append(float(torch.nn.utils.get_total_norm(grads)))
        assert all(group["fused"] for group in self.param_groups)
        return step(self, closure=lambda: loss)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", watched)
        trainer = silent_trainer(
            tmp_path, max_steps=3, precision=precision, accelerator="cpu", gradient_clip_val=0.01
        )
        trainer.fit(module, *streams(ToyData(), batch_size=32))
    assert norms == pytest.approx([0.01] * 3, rel=1e-3)


def test_the_average_is_where_the_module_will_be_and_counts_on_the_host(tmp_path):
    """Lightning sets callbacks up before it moves the module."""
    ema, trainer = EMA(decay=0.9), Trainer(accelerator="cpu", logger=False)
    trainer.strategy._root_device = torch.device("meta")
    module = make_module()
    assert module.device.type == "cpu"
    ema.setup(trainer, module, "fit")
    average = ema._average_model
    assert {p.device.type for p in average.parameters()} == {"meta"}
    assert average.n_averaged.device.type == "cpu"
    average.update_parameters(module.to("meta"))  # nothing can be read back from there
    assert int(average.n_averaged) == 1


def test_without_a_compiler_one_sentence_says_so(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"needs a C\+\+ compiler .* leave compile out"):
        acceleration.check_compiler(torch.device("cpu"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match="no-such-compiler is missing here"):
        compile_backbone(torch.nn.Linear(1, 1), torch.device("cpu"))


@pytest.mark.slow
@HAS_COMPILER
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of what it does itself
def test_a_compiled_network_computes_the_same_under_the_same_names():
    module, batch = module_of("model.n_layers=2")
    names = list(module.state_dict())
    plain = module.algorithm.loss(batch, make_generator(3))
    compile_backbone(module.algorithm.backbone, torch.device("cpu"))
    compiled = module.algorithm.loss(batch, make_generator(3))
    compiled.loss.backward()
    assert list(module.state_dict()) == names
    torch.testing.assert_close(compiled.nelbo, plain.nelbo, rtol=1e-4, atol=1e-4)


class Block(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).relu()


class TwoBlocks(torch.nn.Module):
    """A backbone of two equal blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(4, 4) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_cuda_graphs_are_plain_compiling_on_the_cpu(monkeypatch, caplog):
    asked = []
    monkeypatch.setattr(acceleration, "check_compiler", lambda device: None)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **how: asked.append(how))
    begun = []
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: begun.append(1))
    caplog.set_level("INFO")
    for how in (True, "reduce-overhead"):
        compile_backbone(backbone := TwoBlocks(), torch.device("cpu"), how)
        backbone(torch.zeros(2, 4))
    assert asked == [{"dynamic": True}] * 4
    assert "compile=true on the CPU" in caplog.text
    compile_backbone(backbone := TwoBlocks(), torch.device("cuda"), "reduce-overhead")
    assert asked[4:] == [{"dynamic": False, "mode": "reduce-overhead"}] * 2
    backbone(torch.zeros(2, 4))  # within a training step, which began before
    assert not begun
    with torch.no_grad():
        backbone(torch.zeros(2, 4))
    assert begun == [1]


@pytest.mark.slow
@HAS_COMPILER
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of what it does itself
def test_shapes_that_come_again_are_not_compiled_again(monkeypatch):
    """As for a GPU, on which nothing else would differ before its graphs are recorded."""
    monkeypatch.setattr(acceleration, "check_compiler", lambda device: None)
    dynamo = import_module("torch._dynamo")
    dynamo.reset()
    torch.manual_seed(0)
    plain, backbone = TwoBlocks(), TwoBlocks()
    backbone.load_state_dict(plain.state_dict())
    compile_backbone(backbone, torch.device("cuda"), "reduce-overhead")
    graphs = [dynamo.utils.counters["stats"]["unique_graphs"]]
    for rows in (3, 3, 5, 3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(backbone(x), plain(x))
        graphs.append(dynamo.utils.counters["stats"]["unique_graphs"])
    of_a_shape = graphs[1] - graphs[0]
    assert of_a_shape > 0
    assert [graph - graphs[0] for graph in graphs[1:]] == [
        of_a_shape * kinds for kinds in (1, 1, 2, 2, 2)
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_steps_on_a_gpu_wait_for_nothing(tmp_path):
    """Copies that block the host are errors here, from the second step on."""

    class Strict(Callback):
        def on_train_batch_end(self, *_):
            torch.cuda.set_sync_debug_mode("error")

        def on_train_end(self, *_):
            torch.cuda.set_sync_debug_mode("default")

    module, _ = module_of()
    trainer = silent_trainer(
        tmp_path,
        accelerator="cuda",
        devices=1,
        max_steps=4,
        limit_val_batches=0,
        callbacks=[EMA(decay=0.9), Strict()],
    )
    data = build_data(compose("train", list(TINY)))
    try:
        trainer.fit(module, *streams(data, batch_size=16))
    finally:
        torch.cuda.set_sync_debug_mode("default")
