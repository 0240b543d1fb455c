"""Help and errors of commands on what the packages that plug in bring: sentences, without torch."""

from __future__ import annotations

import re

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.composing.search_path import path_keys
from torchless import answers_without_torch, check_refusal

TINY = ["model=bd_tiny", "debug=smoke", "data.num_plans=200"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["train", "data=regions"],
            "data=regions holds features, but algo=mdlm works on tokens; for this data choose "
            "algo=masked-features",
        ),
        (
            ["train", "algo=masked-features", "data=bubble_diagrams"],
            "tokens, but algo=masked-features works on features; for this data choose algo=ar",
        ),
        (
            ["train", "algo=masked-features", "algo.backbone=dit"],
            "backbone 'dit' works on tokens; choose algo.backbone=get-region",
        ),
        (
            ["train", "algo=masked-features", "sampling=ancestral"],
            "cannot be sampled by ancestral, which samples tokens; use sampling=row-ancestral",
        ),
        (
            ["train", "sampling=row-ancestral"],
            "cannot be sampled by row-ancestral, which samples features; use sampling=ancestral or",
        ),
        (
            ["compare", "algos=[masked-features]"],
            "compare measures algorithms on tokens, field and latent, and masked-features works",
        ),
        (["train", "data=planz"], "did you mean 'plans'?"),
        (["train", "data=plan", "--help"], "'plans'"),
        (["train", "data=plans", "data.skip_invlid=true"], "did you mean 'skip_invalid'?"),
        (["train", "data.max_nodes=5"], "data.max_nodes=5: "),
        (["train", "data.symmetry=mirorr", *TINY], "'mirorr'; did you mean 'mirror'?"),
        (["sample", "checkpoint=a", "num_rooms=[5,", "6]"], "leave no spaces inside key=value"),
        (["sample", "checkpoint=a", "num_rooms=5,6"], "a list stands in brackets, num_rooms=[5,6]"),
        (["train", "data=plans", "data.path=nowhere.jsonl"], "data.path=nowhere.jsonl"),
        (["sample", "checkpoint=plans-smal"], "did you mean 'plans-small'"),
        (["train", "init.checkpoint=plans-smal", *TINY], "did you mean 'plans-small'"),
    ],
)
def test_such_errors_end_with_a_sentence(failure, arguments, sentence):
    assert sentence in failure(*arguments)


def test_plans_are_listed(capsys):
    main(["list"])
    assert "plans" in capsys.readouterr().out.split()


def test_files_that_all_packages_name_are_known():
    assert {"brief", "data.source_tokenizer"} <= path_keys()


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
def test_every_such_kind_of_data_names_its_files(words, names, capsys):
    with pytest.raises(SystemExit):
        main(["train", *words, "hydra.run.dir=run"])
    assert names in capsys.readouterr().err


def test_a_key_of_several_packages_says_what_it_means_for_each(capsys):
    main(["sample", "--help"])
    said = capsys.readouterr().out
    for title in ("diagrams", "dialogues", "features"):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert "\n given=" in own
    main(["compare", "--help"])
    said = capsys.readouterr().out
    for title, key in (
        ("diagrams", "num_solver_checks"),
        ("images from maps", "samples_per_condition"),
    ):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert f"eval.{key}=" in own
