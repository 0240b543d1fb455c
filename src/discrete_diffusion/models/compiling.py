"""``torch.compile`` for backbones, where there is a compiler."""

from __future__ import annotations

import os
import shutil
import sys

import torch
from torch import nn

CPU_COMPILER = "clang++" if sys.platform == "darwin" else "g++"
"""Compiler that PyTorch calls unless the environment's CXX names another."""


def compile_backbone(backbone: nn.Module, device: torch.device) -> None:
    """Compile a backbone's forward passes in place; names of parameters stay as they are.

    The blocks of its ``ModuleList``s are compiled rather than the whole: equal blocks share one
    compilation, and what depends on the data, such as leaving out PAD, stays outside. A backbone
    without such lists is compiled whole. Compiling happens at the first call, for any sizes.

    Raises ``ValueError`` if the machine has no compiler for ``device``.
    """
    check_compiler(device)
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    for module in [block for blocks in lists for block in blocks] or [backbone]:
        module.compile(dynamic=True)


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
