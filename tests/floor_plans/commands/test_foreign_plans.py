"""Plans in another data set's codes or in metres, as each command that reads them meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.cli import compose, main
from discrete_diffusion.domains import build_data, complete_data
from floor_plans import generate_plans, write_diagrams
from made_checkpoints import training_state

HOUSE_GAN = dict(enumerate((1, 3, 2, 4, 9, 3, 3, 3, 3, 7, 8, 6, 10)))
PLANS = generate_plans(40, seed=2)
TABLES = ("codes", "rplan", "housegan", "MasterRoom", "LivingRoom")
TRAIN = ["train", "model=bd_tiny", "debug=smoke", "data=plans", "eval.num_samples=0"]


@pytest.fixture(autouse=True)
def _files(elsewhere):
    """codes.jsonl: plans in House-GAN's codes; metres.jsonl: boxes in metres; names.jsonl."""
    with open("codes.jsonl", "w") as codes, open("metres.jsonl", "w") as metres:
        for plan in PLANS:
            rooms = [HOUSE_GAN[room] for room in plan.rooms]
            codes.write(json.dumps({"rooms": rooms, "relations": plan.relations}) + "\n")
            boxes = (np.array(plan.boxes) * 18 / 256).tolist()
            metres.write(json.dumps({"rooms": list(plan.room_names), "boxes": boxes}) + "\n")
    write_diagrams("names.jsonl", PLANS)


def commands(file: str) -> dict[str, list[str]]:
    """Each command that reads the file, without the keys that say what is in it."""
    return {
        "train": [*TRAIN, f"data.path={file}"],
        "check": ["data", "check", file],
        "describe": ["data", "describe", file, "--skip-invalid"],
        "convert": ["data", "convert", file, "out.jsonl"],
        "samples": ["evaluate", f"samples={file}", "reference=names.jsonl"],
        "reference": ["evaluate", "samples=names.jsonl", f"reference={file}"],
        "training_data": [
            "evaluate",
            "samples=names.jsonl",
            f"training_data={file}",
            "skip_invalid=true",
        ],
    }


@pytest.mark.parametrize("command", commands(""))
def test_no_command_reads_codes_of_several_tables_or_boxes_in_metres(failure, command):
    error = failure(*commands("codes.jsonl")[command])
    for word in (
        "codes.jsonl: ",
        "data.room_codes=housegan",
        "room_codes=TABLE",
        "--room-codes",
        *TABLES,
    ):
        assert word in error
    error = failure(*commands("metres.jsonl")[command])
    for word in (
        "metres.jsonl: ",
        "data.unit=metres",
        "data.adjacency_threshold=",
        "--unit",
        "unit=",
    ):
        assert word in error


@pytest.mark.slow
def test_named_they_are_read(capsys):
    main(["data", "check", "codes.jsonl", "--room-codes", "housegan"])
    main(["data", "describe", "codes.jsonl", "--room-codes", "housegan", "--json"])
    main(["data", "convert", "metres.jsonl", "out.jsonl", "--unit", "metres"])
    shown = capsys.readouterr().out
    assert shown.startswith("codes.jsonl (room codes of housegan): 40 diagrams from 40 lines; all")
    assert '"room_codes": [\n    "housegan"\n  ]' in shown
    assert "metres.jsonl: 40 diagrams from 40 lines" in shown
    plain = ["pictures=false", "reference_repeats=0", "num_solver_checks=0"]
    files = ["samples=codes.jsonl", "reference=names.jsonl", "training_data=metres.jsonl"]
    main(
        [
            "evaluate",
            *files,
            "room_codes=housegan",
            "unit=metres",
            "adjacency_threshold=0.6",
            *plain,
        ]
    )
    shown = "".join(capsys.readouterr())
    assert "codes.jsonl (room codes of housegan): 40 diagrams" in shown
    assert "names.jsonl: 40 diagrams" in shown


@pytest.mark.slow
def test_a_few_plans_of_another_table_are_no_secret(capsys):
    codes = Path("codes.jsonl").read_text().splitlines()[:4]
    write_diagrams("ours.jsonl", PLANS, names=False)
    ours = Path("ours.jsonl").read_text().replace(', "codes": "rplan"', "").splitlines()
    with open("mixed.jsonl", "w") as mixed:
        mixed.write("\n".join([*ours, *codes]))
    main(["data", "check", "mixed.jsonl"])
    shown = capsys.readouterr()
    assert "(room codes of rplan): 44 diagrams from 44 lines; 4 with doubtful room" in shown.out
    main(["data", "describe", "mixed.jsonl", "--json"])
    assert '"num_doubtful": 4' in capsys.readouterr().out


@pytest.mark.slow
def test_training_data_is_what_its_table_makes_of_it(caplog):
    """Other codes are other data, by the fingerprint that a run resumes by."""

    def fingerprint(*words: str) -> str:
        return build_data(compose("train", [*TRAIN[1:], *words])).fingerprint()

    files = ["data.path=codes.jsonl"]
    ours, theirs = (
        fingerprint(*files, f"data.room_codes={name}") for name in ("rplan", "housegan")
    )
    assert ours != theirs
    names = fingerprint("data.path=names.jsonl")
    assert (
        fingerprint("data.path=names.jsonl", "data.room_codes=housegan") == names
    )  # they always win
    metres = "data.path=metres.jsonl"
    wide = fingerprint(metres, "data.unit=metres", "data.adjacency_threshold=1")
    assert fingerprint(metres, "data.unit=metres") != wide
    with caplog.at_level("INFO"):
        fingerprint(*files, "data.room_codes=housegan")
    assert "codes.jsonl (room codes of housegan): 40 diagrams" in caplog.text


def test_checkpoints_from_before_these_keys_read_their_plans():
    config = compose("train", [*TRAIN[1:], "data.path=names.jsonl"])
    expected = build_data(config).fingerprint()
    data = {key: value for key, value in config.data.items() if key not in ("codes", "unit")}
    before = OmegaConf.create({"data": data | {"adjacency_threshold": 9.0}})
    assert build_data(before).fingerprint() == expected


@pytest.mark.slow
def test_given_codes_are_named_alike(failure, tmp_path):
    config = complete_data(compose("train", ["model=bd_tiny", "model.d_model=16"]))
    torch.save(training_state(config), tmp_path / "model.ckpt")
    (tmp_path / "partial.jsonl").write_text('{"rooms": [1, null, 6]}\n\n')
    words = ["sample", "checkpoint=model.ckpt", "given=partial.jsonl", "num_completions=1"]
    error = failure(*words)
    for word in ("partial.jsonl: ", "room_codes=TABLE", *TABLES):
        assert word in error
    main([*words, "room_codes=housegan", "out=done", "threads=1"])
    (line,) = (tmp_path / "done" / "samples.jsonl").read_text().splitlines()
    rooms = json.loads(line)["rooms"]
    assert (rooms[0], rooms[2]) == ("LivingRoom", "Storage")
    assert "is for given=FILE" in failure("sample", "checkpoint=model.ckpt", "room_codes=housegan")
    assert "did you mean 'housegan'" in failure(*words, "room_codes=housegn")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([*TRAIN, "data.path=names.jsonl", "data.room_codes=houseganppp"], "'houseganpp'"),
        ([*TRAIN, "data.path=names.jsonl", "data.unit=meters"], "'metres'"),
        (
            [*TRAIN, "data.path=names.jsonl", "data.adjacency_threshold=far"],
            "adjacency_threshold=far: expected",
        ),
        (["data", "check", "names.jsonl", "--room-codes", "rpln"], "did you mean 'rplan'"),
        (["data", "check", "names.jsonl", "--unit", "feets"], "did you mean 'feet'"),
    ],
)
def test_misspelt_tables_and_units_are_refused(failure, words, named):
    assert named in failure(*words)


def test_a_foreign_file_is_one_line_of_check(capsys):
    np.save("plans.npy", np.zeros(9))
    with pytest.raises(SystemExit) as stop:
        main(["data", "check", "plans.npy"])
    assert stop.value.code == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("plans.npy: arrays of NumPy")
