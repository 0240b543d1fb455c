"""Errors of commands on what the packages that plug in bring: they end with a sentence."""

from __future__ import annotations

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.composing.search_path import path_keys

TINY = ["model=bd_tiny", "debug=default", "data.num_plans=200"]


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
        (["train", "data.n_max=5"], "data.n_max=5: "),
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
