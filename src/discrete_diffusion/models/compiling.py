"""``torch.compile`` for backbones, where there is a compiler."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from importlib import import_module
from typing import Any

import torch
from torch import nn

from discrete_diffusion.config.values import REDUCE_OVERHEAD

logger = logging.getLogger(__name__)

CPU_COMPILER = "clang++" if sys.platform == "darwin" else "g++"
"""Compiler that PyTorch calls unless the environment's CXX names another."""


_MOST_SHAPES = 64
"""Compilations of one piece of code at most, one for each shape; past them it runs uncompiled.
PyTorch's own 8 are fewer than the sizes of diagrams, with PAD and without, and last batches."""


def compile_backbone(backbone: nn.Module, device: torch.device, how: bool | str = True) -> None:
    """Compile a backbone's forward passes in place; names of parameters stay as they are.

    The blocks of its ``ModuleList``s are compiled rather than the whole: equal blocks share one
    compilation, and what depends on the data, such as leaving out PAD, stays outside. A backbone
    without such lists is compiled whole. Compiling happens at the first call, for any sizes.

    ``how``: ``reduce-overhead`` compiles for each shape by itself and, on a GPU, records CUDA
    graphs, which launch all kernels of a block at once. The CPU has no such graphs: there it is
    True.

    Raises ``ValueError`` if the machine has no compiler for ``device``.
    """
    check_compiler(device)
    options: dict[str, Any] = {"dynamic": True}
    if how == REDUCE_OVERHEAD:
        if device.type == "cpu":
            logger.info("compile=%s is compile=true on the CPU, which has no CUDA graphs", how)
        else:
            options = {"dynamic": False, "mode": how}
            allow_many_shapes()
            backbone.register_forward_pre_hook(_begin_without_gradients)
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    for module in [block for blocks in lists for block in blocks] or [backbone]:
        module.compile(**options)


def allow_many_shapes() -> None:
    """Let PyTorch compile one piece of code as often as ``_MOST_SHAPES``."""
    limits: Any = import_module("torch._dynamo.config")
    limits.recompile_limit = max(limits.recompile_limit, _MOST_SHAPES)


def begin_step() -> None:
    """Let CUDA graphs overwrite the memory of what came before: a training step, or a network call
    without gradients, begins. Else each block would, and its input is what the last one made."""
    torch.compiler.cudagraph_mark_step_begin()


def _begin_without_gradients(*_: object) -> None:
    if not torch.is_grad_enabled():
        begin_step()


def check_compiler(device: torch.device) -> None:
    """Raise ``ValueError`` if ``torch.compile`` would find no Triton for a GPU ``device``, or no
    C++ compiler for the CPU."""
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise ValueError(
                "compile=true needs Triton, and torch finds none that works with this GPU; leave "
                "compile out"
            )
        return
    chosen = os.environ.get("CXX") or CPU_COMPILER
    if shutil.which(chosen) is None:
        raise ValueError(
            f"compile=true needs a C++ compiler on the CPU, and there is no {chosen} here; install "
            "it or leave compile out"
        )
