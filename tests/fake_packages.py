"""Installed packages, without pip."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def fake_install(
    site: Path, package: str, code: str, group: str, entry_points: dict[str, str]
) -> None:
    """What pip leaves behind, without its second."""
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "top_level.txt").write_text(f"{package}\n")
    lines = [f"[{group}]", *(f"{k} = {v}" for k, v in entry_points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    importlib.invalidate_caches()


def forget_imports(folder: Path) -> None:
    """Of modules that lie in a folder: a new process would not have them."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
