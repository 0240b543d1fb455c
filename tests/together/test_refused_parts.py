"""Parts of the packages that plug in: refused for what the config alone shows, without torch."""

from __future__ import annotations

import pytest

from discrete_diffusion.cli import main
from torchless import answers_without_torch, check_refusal

REFUSED = {
    "train data=plans data.path=nope.jsonl": ["data.path=nope.jsonl"],
    "train algo=masked-features data=bubble_diagrams": ["algo=masked-features", "algo=mdlm"],
    "compare algos=[mdlm] data=plans data.path=nope.jsonl": ["data.path=nope.jsonl"],
}
"""Command -> what its one sentence names."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[int, str]]:
    commands = [*REFUSED, "data check --help"]
    return answers_without_torch(commands, tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize("command", REFUSED)
def test_such_an_error_is_named_without_torch(answers, command):
    check_refusal(answers[command], REFUSED[command])


def test_help_on_files_of_plans_needs_no_torch(answers):
    status, text = answers["data check --help"]
    assert status == 0
    assert len(text.splitlines()) > 10


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["data=eit", "algo=regression", "data.path=nope.npz"], "data.path=nope.npz"),
        (["data=regions", "algo=masked-features", "data.path=nope.zarr"], "data.path=nope.zarr"),
        (["data=dialogue", "algo=latent-seq2seq", "data.path=no.jsonl"], "data.path=no.jsonl"),
    ],
)
def test_every_such_kind_of_data_names_its_files(words, names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["train", *words, "hydra.run.dir=run"])
    assert names in capsys.readouterr().err
