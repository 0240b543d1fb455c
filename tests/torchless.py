"""Commands run in one process that must not import torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

CODE = """
import contextlib, io, json, sys
sys.path.append(sys.argv[2])
from discrete_diffusion.cli import main
from kept_configs import keep_configs
keep_configs()

def said(command):
    text = io.StringIO()
    with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
        try:
            main(command.split())
        except SystemExit as end:
            return [end.code or 0, text.getvalue()]
    return [0, text.getvalue()]

found = {command: said(command) for command in json.loads(sys.argv[1])}
assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "lightning")]
print(json.dumps(found))
"""


def answers_without_torch(commands: Iterable[str], folder: Path) -> dict[str, tuple[int, str]]:
    """Exit status and text of every command; ``kept.ckpt`` is a file there."""
    (folder / "kept.ckpt").write_text("never opened")
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([*commands]), str(Path(__file__).parent)],
        **{"cwd": folder, "capture_output": True, "text": True, "check": False},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_refusal(answer: tuple[int, str], names: Iterable[str]) -> None:
    """The last line of an answer is a sentence that names what is wrong."""
    status, text = answer
    assert status == 1
    sentence = text.splitlines()[-1]
    assert all(name in sentence for name in names), text
