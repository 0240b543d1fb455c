"""The version of this package."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

__version__ = "0.1.0"


_NAME = "discrete-diffusion"


def install_command(*extras: str) -> str:
    """Command that brings extras: ``pip install ".[plans]"`` in the clone that the package is of,
    with its path in another folder; else of the address or the name that it was installed by."""
    wanted = f"[{','.join(extras)}]"
    origin = _origin()
    folder, editable = _clone(), bool(origin.get("dir_info", {}).get("editable"))
    url = str(origin.get("url", ""))
    if folder is None and "dir_info" in origin:
        folder = Path(url2pathname(unquote(urlsplit(url).path)))
    if folder is not None and folder.is_dir():
        shown = "." if folder == Path.cwd() else str(folder)
        return f'pip install {"-e " if editable else ""}"{shown}{wanted}"'
    if "vcs_info" in origin:
        about = origin["vcs_info"]
        url = f"{about.get('vcs', 'git')}+{url}@{about.get('commit_id', 'HEAD')}"
    if "vcs_info" in origin or "archive_info" in origin:
        return f'pip install "{_NAME}{wanted} @ {url}"'
    return f'pip install "{_NAME}{wanted}"'


def _origin() -> dict[str, Any]:
    """Note of pip on a package from a folder or an address (PEP 610); empty for one from an index,
    or not installed."""
    try:
        text = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return dict(json.loads(text)) if text else {}


def _clone() -> Path | None:
    """Folder of the clone that this very file lies in."""
    folder = Path(__file__).resolve().parents[3]
    project = folder / "pyproject.toml"
    if not project.is_file():
        return None
    named = re.search(rf'^name = "{_NAME}"$', project.read_text("utf-8"), re.MULTILINE)
    return folder if named else None
