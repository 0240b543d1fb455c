"""What a message says to type for an optional part, wherever the package came from."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import discrete_diffusion
from discrete_diffusion.runtime import package
from discrete_diffusion.runtime.package import install_command

SOURCE = Path(discrete_diffusion.__file__).resolve().parent
CLONE = SOURCE.parents[1]


def printed(site: Path, folder: Path) -> str:
    """What a package that lies in ``site`` prints in ``folder``."""
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}]\n"
        "from discrete_diffusion.runtime.package import install_command\n"
        "print(install_command('plans'))"
    )
    run = [sys.executable, "-S", "-c", code]
    return subprocess.run(
        run, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def installed(site: Path, direct_url: dict | None) -> Path:
    """The package in a folder of installed ones, with what pip notes of its origin."""
    (site / "discrete_diffusion" / "runtime").mkdir(parents=True)
    (site / "discrete_diffusion" / "__init__.py").write_text("")
    (site / "discrete_diffusion" / "runtime" / "__init__.py").write_text("")
    shutil.copy(package.__file__, site / "discrete_diffusion" / "runtime")
    info = site / "discrete_diffusion-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: discrete-diffusion\nVersion: 0.1.0\n"
    )
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    return site


def test_in_a_clone_it_is_the_folder(monkeypatch, tmp_path):
    if not (CLONE / "pyproject.toml").is_file():
        pytest.skip("the package is not of a clone")
    monkeypatch.chdir(CLONE)
    assert install_command("plans").endswith('".[plans]"')
    assert install_command("plans", "studio").endswith('".[plans,studio]"')
    monkeypatch.chdir(tmp_path)
    assert shlex.split(install_command("plans"))[-1] == f"{CLONE}[plans]"


FROM_INDEX = 'pip install "discrete-diffusion[plans]"'


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, FROM_INDEX),
        ({"url": "file:///gone/folder", "dir_info": {}}, FROM_INDEX),
        (
            {"url": "https://host/dd.whl", "archive_info": {}},
            'pip install "discrete-diffusion[plans] @ https://host/dd.whl"',
        ),
        (
            {"url": "https://host/dd", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            'pip install "discrete-diffusion[plans] @ git+https://host/dd@abc"',
        ),
        ({"url": "CLONE", "dir_info": {"editable": True}}, 'pip install -e "CLONE[plans]"'),
        ({"url": "CLONE", "dir_info": {}}, 'pip install "CLONE[plans]"'),
    ],
)
def test_elsewhere_it_is_what_it_was_installed_from(tmp_path, origin, command):
    clone = tmp_path / "a clone"
    clone.mkdir()
    if origin is not None:
        origin = origin | {"url": origin["url"].replace("CLONE", clone.as_uri())}
    site = installed(tmp_path / "site", origin)
    assert printed(site, tmp_path) == command.replace("CLONE", str(clone))
    if "CLONE" in command:
        assert printed(site, clone) == command.replace("CLONE", ".")
