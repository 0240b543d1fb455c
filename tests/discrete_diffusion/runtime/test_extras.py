"""What a message says to type for an optional part, wherever the package came from."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

import discrete_diffusion
from discrete_diffusion.runtime import package
from discrete_diffusion.runtime.package import install_command

CLONE = Path(discrete_diffusion.__file__).resolve().parents[2]
FROM_INDEX = 'pip install "discrete-diffusion[plans]"'


def test_in_a_clone_it_is_the_folder(monkeypatch, tmp_path):
    if not (CLONE / "pyproject.toml").is_file():
        pytest.skip("the package is not of a clone")
    monkeypatch.chdir(CLONE)
    assert install_command("plans").endswith('".[plans]"')
    assert install_command("plans", "studio").endswith('".[plans,studio]"')
    monkeypatch.chdir(tmp_path)
    assert shlex.split(install_command("plans"))[-1] == f"{CLONE}[plans]"


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
def test_elsewhere_it_is_what_it_was_installed_from(tmp_path, monkeypatch, origin, command):
    (clone := tmp_path / "a clone").mkdir()
    if origin is not None:
        origin = origin | {"url": origin["url"].replace("CLONE", clone.as_uri())}
    noted = SimpleNamespace(read_text=lambda name: None if origin is None else json.dumps(origin))
    monkeypatch.setattr(package, "distribution", lambda name: noted)
    monkeypatch.setattr(package, "_clone", lambda: None)
    assert install_command("plans") == command.replace("CLONE", str(clone))
    if "CLONE" in command:
        monkeypatch.chdir(clone)
        assert install_command("plans") == command.replace("CLONE", ".")
