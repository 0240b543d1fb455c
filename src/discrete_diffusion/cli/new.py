"""``discrete-diffusion new NAME``: a small package with a backbone, its sizes and its tests."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.models.registry import available_backbones
from discrete_diffusion.runtime.atomic_files import atomic_folder, claimed_file, write_text

HELP = """\
discrete-diffusion new my_project    a package with a backbone, its sizes and its tests
"""

_TEMPLATE = Path(__file__).resolve().parents[1] / "template"
_NAME = "my_project"


def run(arguments: Sequence[str]) -> None:
    """Write the package ``arguments[0]`` into a folder of that name, and say how to go on.

    Raises ``ValueError`` for a name that is none of Python's or taken, and if there is such a
    folder.
    """
    if len(arguments) != 1:
        raise ValueError("new takes one name, as in: discrete-diffusion new my_project")
    name = arguments[0]
    if not (name.isidentifier() and name.isascii() and name[0] != "_") or keyword.iskeyword(name):
        raise ValueError(f"new {name}: expected letters, digits and _, as in my_project")
    folder = Path(name)
    if folder.exists():
        raise ValueError(f"new {name}: {folder.absolute()} exists; choose another name")
    if find_spec(name) is not None:
        raise ValueError(f"new {name}: a package of that name is installed; choose another name")
    if name in available_backbones() or name in shipped_files("model"):
        raise ValueError(
            f"new {name}: a backbone or a model= of that name is there; choose another name"
        )
    with claimed_file("new", folder), atomic_folder(folder) as unfinished:
        for path in sorted(_TEMPLATE.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                to = unfinished / str(path.relative_to(_TEMPLATE)).replace(_NAME, name)
                write_text(to, path.read_text(encoding="utf-8").replace(_NAME, name))
    print(f"{name}/ has a backbone, its sizes and its tests; to go on:\n")
    print(f"  cd {name}\n  pip install -e .\n  pytest")
    print(f"  discrete-diffusion train --config-dir configs algo.backbone={name}")
    compared = f"algos=[mdlm] backbones=[{name},bd-denoiser]"
    print(f"  discrete-diffusion compare {compared} --config-dir configs")
