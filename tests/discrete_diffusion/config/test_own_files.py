"""A slip in a config file of one's own: its file and line, in one sentence; right ones pass."""

from __future__ import annotations

import os

import pytest

from discrete_diffusion.cli import compose

GLOBAL = "# @package _global_\n"
STEPS = "trainer: {max_steps: 2}\n"

SLIPS = {
    "tab": ("trainer:\n\tmax_steps: 2\n", 3, ["tab", "spaces"]),
    "no colon": ("trainer:\n  max_steps 2\n", 3, ["trainer", "max_steps: 100"]),
    "no colon, then one": ("trainer:\n  max_steps 2\n  devices: 1\n", 4, ["colon", "before"]),
    "no space": ("trainer:\n  max_steps:2\n", 3, ["trainer", "max_steps: 100"]),
    "twice": ("trainer:\n  max_steps: 2\n  max_steps: 3\n", 4, ["max_steps", "line 3"]),
    "section twice": (f"{STEPS}data: {{}}\n{STEPS}", 4, ["trainer", "line 2"]),
    "too far in": ("trainer:\n  max_steps: 2\n   devices: 1\n", 4, ["indented otherwise"]),
    "too far out": ("trainer:\n  max_steps: 2\n devices: 1\n", 4, ["indent"]),
    "no such key": ("trainer: {max_steps: '${nowhere.x}'}\n", 2, ["trainer.max_steps", "nowhere"]),
    "half": ("trainer: {max_steps: '${nowhere'}\n", 2, ["${nowhere"]),
    "no such resolver": ("trainer: {max_steps: '${none:1}'}\n", 2, ["trainer.max_steps", "none"]),
    "no such variable": ("data: {path: '${oc.env:NOWHERE_}'}\n", 2, ["data.path", "NOWHERE_"]),
    "no such choice": ("defaults:\n  - override /schedule: cosin\n", 3, ["'cosin'", "'cosine'"]),
    "no such file": ("defaults:\n  - nowhere\n", 3, ["nowhere"]),
    "no such group": ("defaults:\n  - override /schedul: cosine\n", 3, ["'schedul'", "'schedule'"]),
    "a new group": ("defaults:\n  - /nowhere: cosine\n", 3, ["nowhere/cosine"]),
    "no override": ("defaults:\n  - /schedule: cosine\n", 3, ["override /schedule: cosine"]),
    "overide": ("defaults:\n  - overide /schedule: cosine\n", 3, ["override /schedule: cosine"]),
    "no slash": ("defaults:\n  - override schedule: cosine\n", 3, ["override /schedule: cosine"]),
    "defaults of keys": ("defaults:\n  schedule: cosine\n", 3, ["defaults", "list"]),
    "list in defaults": ("defaults:\n  - [a, b]\n", 3, ["defaults", "list"]),
    "a list": ("trainer:\n  - max_steps: 2\n", 3, ["trainer", "{max_steps: 100}"]),
    "a number": ("trainer: 2\n", 2, ["trainer", "{max_steps: 100}"]),
    "nothing": ("trainer:\n", 2, ["trainer", "{max_steps: 100}"]),
    "all a list": ("- trainer\n", 2, ["{max_steps: 100}"]),
    "a section": ("trainr: {max_steps: 2}\n", 2, ["'trainr'", "'trainer'"]),
    "quote": ('trainer: {devices: "1}\n', 2, ["quotation mark"]),
    "brace": ("trainer: {devices: 1\n", 2, ["bracket"]),
    "interpolation in braces": ("data: {path: ${oc.env:A,b}}\n", 2, ["${...}", "quotes"]),
    "at": ("trainer:\n  accelerator: @cpu\n", 3, ["quotes"]),
    "star": ("trainer:\n  accelerator: *cpu\n", 3, ["*", "quotes"]),
    "documents": (f"{STEPS}---\n{STEPS}", 3, ["---"]),
    "tag": ("trainer: !!python/name:os.system\n", 2, ["tag"]),
    "key": (f"? [a, b]\n: 2\n{STEPS}", 2, ["key"]),
    "control": ("trainer: {devices: \x01}\n", 2, ["control"]),
    "merge": ("trainer:\n  <<: 3\n", 3, ["<<"]),
    "itself": ("trainer: &a {devices: *a}\n", 2, ["itself"]),
    "latin-1": (f"{GLOBAL}# Größe\n{STEPS}".encode("latin-1"), 2, ["UTF-8"]),
    "utf-16": (f"{GLOBAL}{STEPS}".encode("utf-16"), 1, ["UTF-8"]),
    "byte order mark": (f"{GLOBAL}{STEPS}".encode("utf-8-sig"), 1, ["byte order mark"]),
}


@pytest.fixture
def write(tmp_path):
    """Write ``experiment/mine.yaml``; the words that choose it."""

    def write(content: str | bytes) -> list[str]:
        path = tmp_path / "own" / "experiment" / "mine.yaml"
        path.parent.mkdir(parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["train", "--config-dir", "own", "experiment=mine", "model=bd_tiny"]

    return write


@pytest.mark.parametrize(("content", "line", "named"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_named_by_file_and_line(content, line, named, write, failure, tmp_path):
    error = failure(*write(content if isinstance(content, bytes) else GLOBAL + content))
    for word in (f"own/experiment/mine.yaml, line {line}: ", *named):
        assert word in error
    assert {path.name for path in tmp_path.iterdir()} <= {"own", "cache"}


@pytest.mark.parametrize(
    "header",
    [
        *("# @package global\n", "# @pakage _global_\n", "# @package _globl_\n", "# @package\n"),
        *("# @package: _global_\n", "# @package _global_ # all\n", "# @package _global_.\n", ""),
        "# Mine.\n# @package global\n",
    ],
)
def test_a_wrong_header_is_not_lost(header, write, failure):
    error, line = failure(*write(header + STEPS)), max(1, header.count("\n"))
    assert f"own/experiment/mine.yaml, line {line}: " in error
    assert "# @package _global_" in error


@pytest.mark.parametrize(
    "content",
    [
        f"{GLOBAL}trainer:\n  max_steps: 7\n",
        "\n#@package _global_\n\ntrainer: {max_steps: 7}\nx: &x {devices: 1}\n",
        f"{GLOBAL}trainer: {{max_steps: '${{few}}'}}\nfew: 7\n",
        f"{GLOBAL}defaults:\n  - override /optim: muon\n  - _self_\ntrainer: {{max_steps: 7}}\n",
        f"{GLOBAL}trainer: &a {{max_steps: 7}}\ncallbacks: {{extra: {{}}}}\n",
        "# @package trainer\nmax_steps: 7\n",
        f"{GLOBAL}# Größe\ntrainer: {{max_steps: 7}}\n".replace("\n", "\r\n"),
        f"{GLOBAL}defaults: [planar, _self_]\ntrainer: {{max_steps: '${{oc.env:NOWHERE_,7}}'}}\n",
    ],
)
def test_a_right_file_is_read(content, write):
    words = write(content)[3:4]
    config = compose("train", words, user_config_dir="own")
    assert int(config.trainer.max_steps) == 7


def test_a_file_of_the_file_is_checked_too(write, failure, tmp_path):
    words = write(f"{GLOBAL}defaults: [other]\n{STEPS}")
    other = tmp_path / "own" / "experiment" / "other.yaml"
    other.write_text(f"{GLOBAL}\ntrainer: [2]\n")
    assert f"{os.path.relpath(other)}, line 3: trainer " in failure(*words)


def test_every_config_of_ours_is_right():
    from discrete_diffusion.config.files import check_own_files, config_dirs

    found = [
        (folder, path) for folder in config_dirs() for path in sorted(folder.rglob("*/*.yaml"))
    ]
    for folder, path in found:
        group = str(path.parent.relative_to(folder))
        if group.startswith("hydra/"):
            continue
        assert check_own_files("train", [f"{group}={path.stem}"]), path
