"""``discrete-diffusion data``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.domains import SubCommand
from discrete_diffusion.domains import registry as domains
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.runtime import install_command
from floor_plans import BubbleDiagram, generate_plans, read_diagrams, write_diagrams
from floor_plans.commands.data_commands import COMMANDS
from floor_plans.diagrams.procedural.generator import cached_plans
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.plans import box_model, contradiction

PLANS = generate_plans(6, seed=1)
NINE = BubbleDiagram((0,) * 9, ())


@pytest.fixture(autouse=True)
def folder(tmp_path, elsewhere, monkeypatch):
    """A folder with plans.jsonl in it, where commands run."""
    monkeypatch.setenv("COLUMNS", "100")
    write_diagrams("plans.jsonl", PLANS)
    return tmp_path


def output(capsys, *arguments: str) -> str:
    capsys.readouterr()
    main(["data", *arguments])
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


def spoil(path) -> None:
    """Add a wrong line and one with nine rooms."""
    with path.open("a") as file:
        file.write('{"rooms": ["LivingRoom", "Kitchn"], "relations": []}\n')
        file.write(json.dumps(NINE.to_json()) + "\n")


def test_describe_prints_counts_and_shares(capsys):
    text = output(capsys, "describe", "plans.jsonl")
    assert text.startswith("plans.jsonl: 6 diagrams from 6 lines\n6 diagrams, 6 distinct")
    for word in ("LivingRoom", "left-above", "transitive", "valid"):
        assert word in text
    mean = sum(len(plan.relations) for plan in PLANS) / 6
    assert f"{mean:.2f}" in text


def test_describe_as_json(capsys, folder):
    spoil(folder / "plans.jsonl")
    found = json.loads(output(capsys, "describe", "plans.jsonl", "--skip-invalid", "--json"))
    assert (found["num_lines"], found["num_diagrams"], found["num_invalid"]) == (8, 6, 2)
    assert found["room_types"]["LivingRoom"] == 6
    assert found["structure"]["connected"] == 1.0
    found = json.loads(
        output(capsys, "describe", "plans.jsonl", "--skip-invalid", "--json", "--max-nodes", "9")
    )
    assert (found["num_diagrams"], found["rooms"]["9"]) == (7, 1)


def test_describe_without_a_file_describes_the_embedded_plans(capsys, monkeypatch):
    from floor_plans.diagrams.procedural import generator as embedded

    monkeypatch.setattr(embedded, "cached_plans", lambda num, seed: cached_plans(200, seed))
    text = output(capsys, "describe")
    assert text.startswith("the embedded plans: 200 of seed 0 (data=bubble_diagrams)\n200 diagrams")


@pytest.mark.slow
def test_check_warns_of_plans_that_cannot_be_built(capsys, folder):
    circle = BubbleDiagram((0, 1, 2), ((0, 1, 2), (0, 2, 7), (1, 2, 2)))
    boxes = ((0.0, 0.0, 9.0, 9.0), (20.0, 0.0, 29.0, 9.0))
    turned = BubbleDiagram((0, 1), ((0, 1, 7),), boxes)
    write_diagrams("plans.jsonl", [*PLANS, *[circle] * 5, turned])
    text = output(capsys, "check", "plans.jsonl")
    counts, in_a_circle, against = text.splitlines()
    assert counts == "plans.jsonl: 12 diagrams from 12 lines; all can be read"
    assert in_a_circle.startswith("warning: 5 of 12 diagrams")
    assert "plans.jsonl, line 7: room 1 left-of room 2 contradicts" in in_a_circle
    assert in_a_circle.endswith("; and 2 more")
    assert against.startswith("warning: 1 of 12 diagrams")
    assert "plans.jsonl, line 12: room 0 right-of room 1" in against


def test_check_says_which_relations_no_plan_has(capsys, folder, monkeypatch):
    pytest.importorskip("ortools", reason="OR-Tools looks for floor plans")
    nested = BubbleDiagram((0, 2, 3), ((0, 1, 5), (1, 2, 2)))
    write_diagrams("plans.jsonl", [*PLANS[:2], *[nested] * 4])
    counts, without, scope = output(capsys, "check", "plans.jsonl", "--plans", "3").splitlines()
    assert without.startswith(
        "warning: 1 of the first 3 diagrams with relations that no floor plan"
    )
    assert "plans.jsonl, line 3: living room surrounding kitchen, kitchen left-of" in without
    assert "bathroom not related to living room" in without
    assert "of the first 3 diagrams" in scope
    counts, without = output(capsys, "check", "plans.jsonl").splitlines()
    assert without.startswith("warning: 4 of 6 diagrams")
    assert without.endswith("; and 1 more")
    assert output(capsys, "check", "plans.jsonl", "--plans", "0") == counts + "\n"
    monkeypatch.setattr(contradiction, "_EFFORT", 1e-9)
    assert "6 diagrams undecided" in output(capsys, "check", "plans.jsonl")


def test_check_warns_of_boxes_in_another_unit(capsys, folder):
    """Though their relations are given, so that nothing is measured on them."""
    boxes = [[0, 0, 5000, 4000], [5000, 0, 8000, 4000]]
    plan = {"rooms": ["LivingRoom", "Kitchen"], "relations": [[0, 1, "left-of"]], "boxes": boxes}
    (folder / "millimetres.jsonl").write_text(json.dumps(plan) + "\n")
    command = ("check", "millimetres.jsonl", "--plans", "0")
    (warning,) = [
        line for line in output(capsys, *command).splitlines() if line.startswith("warning")
    ]
    for word in ("millimetres.jsonl", "unit=pixels", "246 m", "unit=millimetres"):
        assert word in warning
    assert "warning" not in output(capsys, *command, "--unit", "millimetres")


def test_check_without_or_tools(capsys, folder, failure, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    assert install_command("plans") in failure("data", "check", "plans.jsonl", "--plans", "9")
    monkeypatch.setattr(box_model, "find_spec", lambda name: None)
    assert output(capsys, "check", "plans.jsonl").endswith("all can be read\n")


@pytest.mark.slow
def test_check_prints_every_problem_and_ends_with_status_1(capsys, folder):
    assert output(capsys, "check", "plans.jsonl") == (
        "plans.jsonl: 6 diagrams from 6 lines; all can be read\n"
    )
    spoil(folder / "plans.jsonl")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["data", "check", "plans.jsonl"])
    assert stop.value.code == 1
    found = capsys.readouterr()
    assert found.err == ""
    assert found.out.splitlines() == [
        "plans.jsonl, line 7, field 'rooms[1]': unknown room type 'Kitchn'; "
        f"did you mean 'Kitchen'? The names are {', '.join(ROOM_TYPES)}",
        "plans.jsonl, line 8, field 'rooms': 9 rooms, more than max_nodes=8; allow more with "
        "data.max_nodes=9 (discrete-diffusion data: --max-nodes 9)",
        "plans.jsonl: 6 diagrams from 8 lines; 2 invalid left out",
    ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "new/out.jsonl", "out.graphml"])
def test_converted_plans_are_the_same_plans(capsys, folder, name):
    text = output(capsys, "convert", "plans.jsonl", name)
    assert text.startswith("plans.jsonl: 6 diagrams from 6 lines\n")
    written = folder / name.removesuffix(".graphml")
    assert f"{name.removesuffix('.graphml')}: 6 diagrams written" in text
    assert read_diagrams(written) == PLANS


def test_convert_counts_what_is_left_out(capsys, failure, folder):
    spoil(folder / "plans.jsonl")
    assert "line 7, field 'rooms[1]'" in failure("data", "convert", "plans.jsonl", "out.jsonl")
    assert not (folder / "out.jsonl").exists()
    text = output(capsys, "convert", "plans.jsonl", "out.jsonl", "--skip-invalid", "--first", "2")
    assert "2 invalid left out, the first: plans.jsonl, line 7" in text
    assert "out.jsonl: 2 of 6 diagrams written" in text
    assert read_diagrams("out.jsonl") == PLANS[:2]


def test_codes_and_single_graphs(capsys, folder):
    output(capsys, "convert", "plans.jsonl", "codes.jsonl", "--codes")
    first = json.loads((folder / "codes.jsonl").read_text().splitlines()[0])
    assert first["rooms"] == list(PLANS[0].rooms)

    output(capsys, "convert", "plans.jsonl", "one.graphml", "--first", "1")
    assert read_diagrams("one.graphml") == PLANS[:1]


@pytest.mark.slow
def test_pictures(capsys, failure, folder):
    output(capsys, "convert", "plans.jsonl", "new/grid.svg")
    assert (folder / "new" / "grid.svg").read_text().startswith("<?xml")
    text = output(capsys, "convert", "plans.jsonl", "each.svg", "--each", "--first", "2")
    assert "each: 2 of 6 diagrams written, a file each" in text
    assert sorted(p.name for p in (folder / "each").iterdir()) == ["0001.svg", "0002.svg"]
    write_diagrams("many.jsonl", [BubbleDiagram((0,), ())] * 101)
    assert "too many for one picture" in failure("data", "convert", "many.jsonl", "grid.png")


def test_the_input_is_never_overwritten(failure, folder):
    before = (folder / "plans.jsonl").read_bytes()
    (folder / "link.jsonl").symlink_to("plans.jsonl")
    for target in ("plans.jsonl", "link.jsonl", str(folder / "plans.jsonl")):
        assert "is the input" in failure("data", "convert", "plans.jsonl", target)
    assert "is the input" in failure("data", "convert", ".", "plans.jsonl")
    assert (folder / "plans.jsonl").read_bytes() == before


def test_the_cache_is_shown_and_cleared(capsys, folder):
    assert output(capsys, "cache").splitlines()[-1] == "0 files, 0.0 MB cached"
    cached_plans(3)
    (folder / "cache" / "notes.txt").write_text("mine")
    shown = output(capsys, "cache")
    assert str(folder / "cache") in shown
    assert "plans-v" in shown
    assert "1 file, 0.0 MB cached" in shown
    assert "deleted plans-v" in output(capsys, "cache", "--clear")
    assert [p.name for p in (folder / "cache").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("command", ["check", "describe"])
def test_tables_of_regions_are_for_other_commands(failure, folder, command):
    (folder / "t.npz").write_bytes(b"PK")
    error = failure("data", command, "t.npz")
    assert "t.npz is a table of regions or rows of features, not a file of plans; a table" in error
    assert "'discrete-diffusion train algo=masked-features data.path=t.npz'" in error
    assert "'discrete-diffusion sample checkpoint=FILE given=t.npz'" in error
    for name, mark in (("t.zarr", "zarr.json"), ("t", ".zgroup")):
        (folder / name).mkdir()
        (folder / name / mark).write_text("{}")
        error = failure("data", command, name)
        assert f"{name} is a table of regions, not a file of plans; it is read by" in error
        assert f"train algo=masked-features data.path={name}'" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chek", "plans.jsonl"], "did you mean 'check'"),
        (["check"], "arguments are required: FILE; see discrete-diffusion data check --help"),
        (["check", "nowhere.jsonl"], "no plans file at"),
        (["check", "plans.jsonl", "other.jsonl"], "'other.jsonl' is one argument too many"),
        (["check", "plans.jsonl", "--max-noes", "9"], "did you mean '--max-nodes'"),
        (["check", "plans.jsonl", "--max-nodes", "many"], "max_nodes=many: expected a whole"),
        (["check", "plans.jsonl", "--json=maybe"], "json=maybe: expected true or false"),
        (["check", "plans.jsonl", "max_nodes="], "max_nodes= is empty"),
        (["make", "out=o", "total_area=90m2"], "=90m2: expected a number, in square metres"),
        (["check", "plans.jsonl", "--plans", "-1"], "--plans -1: expected at least 0"),
        (
            ["check", "plans.jsonl", "--adjacency-threshold", "nan"],
            "adjacency_threshold=nan: expected",
        ),
        (["describe", "folder.json"], "is a folder without a .json"),
        (["convert", "plans.jsonl", "out.xml"], "expected a name that ends in .jsonl, .json"),
        (["convert", "plans.jsonl", "out.svg", "--codes"], "--codes is for .jsonl and .json"),
        (["convert", "plans.jsonl", "out.json", "--each"], "--each is for pictures"),
        (["convert", "plans.jsonl", "out.json", "--first", "0"], "--first 0: expected"),
        (["convert", "plans.jsonl", "folder.json"], "folder.json is a folder"),
    ],
)
def test_errors_end_with_a_sentence(failure, folder, arguments, sentence):
    (folder / "folder.json").mkdir()
    assert sentence in failure("data", *arguments)


def test_nothing_read_is_nothing_written(failure, folder):
    (folder / "bad.jsonl").write_text("{\n")
    text = failure("data", "convert", "bad.jsonl", "out.jsonl", "--skip-invalid")
    assert "nothing is written" in text
    assert "no diagram" in failure("data", "describe", "bad.jsonl", "--skip-invalid")


@pytest.mark.parametrize("name", ["check", "cache"])
def test_a_plug_in_cannot_take_the_name_of_a_command(failure, monkeypatch, name):
    def mine(options):
        """Never reached."""

    other = SimpleNamespace(commands={"data": {name: SubCommand("", lambda parser: None, mine)}})
    monkeypatch.setitem(domains._DOMAINS, "mine", other)
    assert f"'{name}' is already registered" in failure("data", name)


@pytest.mark.parametrize("command", ["describe", "check", "convert", "cache"])
def test_every_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main(["data", command, "--help"])
    assert stop.value.code == 0
    assert f"discrete-diffusion data {command}" in capsys.readouterr().out
    assert f"data {command}" in output(capsys)


def test_plans_may_have_as_many_rooms_as_in_training():
    parser = argparse.ArgumentParser()
    COMMANDS["check"].add_options(parser)
    assert parser.parse_args(["plans.jsonl"]).max_nodes == RPLAN_VOCAB_CONFIG.n_max


@pytest.mark.slow
def test_looking_at_data_needs_no_training_framework():
    code = (
        "import sys\nfrom discrete_diffusion.cli import main\n"
        "main(['data', 'check', 'plans.jsonl'])\nmain(['data', 'describe', 'plans.jsonl'])\n"
        "print([m for m in ('lightning', 'hydra', 'matplotlib') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_data_of_a_plug_in_has_its_commands(tmp_path, monkeypatch, capsys, failure):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seen_by_data.py").write_text("print('imported')\n")
    main(["data", "plugins=[seen_by_data]", "describe"])
    assert capsys.readouterr().out.startswith("imported\n")
    assert "not_there" in failure("data", "plugins=[not_there]", "describe")
