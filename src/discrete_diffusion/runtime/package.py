"""Version of this package, and the command that installs an optional part of it."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

__version__ = "0.1.0"

_NAME = "discrete-diffusion"


def install_command(*extras: str) -> str:
    """Return the command that installs extras, such as ``pip install ".[plans]"``.

    It names the clone of this file, ``.`` if that is the current folder; without a clone, the
    address or name of the installed package."""
    wanted = f"[{','.join(extras)}]"
    # pip's note on a package from a folder or an address (PEP 610)
    try:
        text = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    origin = dict(json.loads(text)) if text else {}
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


def _clone() -> Path | None:
    """Folder of the clone that contains this file; None without a clone."""
    folder = Path(__file__).resolve().parents[3]
    project = folder / "pyproject.toml"
    if not project.is_file():
        return None
    named = re.search(rf'^name = "{_NAME}"$', project.read_text("utf-8"), re.MULTILINE)
    return folder if named else None
