"""``discrete-diffusion brief check``: what it prints and how it ends."""

from __future__ import annotations

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.runtime import install_command
from floor_plans import BubbleDiagram, generate_plans, write_diagrams
from floor_plans.briefs import brief_of
from floor_plans.briefs.checking import exact_interval
from floor_plans.diagrams.procedural import generator as embedded
from floor_plans.diagrams.procedural.generator import sample_plans
from floor_plans.plans import box_model

PLANS = generate_plans(200, seed=5)
GOOD = "rooms: {Kitchen: 1}\nrelations: [Kitchen adjacent LivingRoom]\n"
needs_solver = pytest.mark.skipif(not box_model.is_installed(), reason="OR-Tools decides")


@pytest.fixture(autouse=True)
def folder(elsewhere, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    write_diagrams("plans.jsonl", PLANS)
    (tmp_path / "brief.yaml").write_text(GOOD)
    return tmp_path


def run(capsys, *arguments: str) -> tuple[str, str, int]:
    """Output, errors and exit status."""
    capsys.readouterr()
    status = 0
    try:
        main(["brief", *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    found = capsys.readouterr()
    return found.out, found.err, status


def test_it_says_what_a_brief_means_and_how_rare_it_is(capsys):
    out, err, status = run(capsys, "check", "brief.yaml", "--plans", "plans.jsonl")
    assert (err, status) == ("", 0)
    asked = brief_of({"rooms": {"Kitchen": 1}, "relations": ["Kitchen beside LivingRoom"]})
    met = sum(not asked.unmet(plan) for plan in PLANS)
    assert 0 < met < 200
    for word in ("Exactly 1 kitchen", "Some kitchen is next to", f"{met} of 200", "95 %"):
        assert word in out
    assert ("can be met" in out) is box_model.is_installed()


@needs_solver
def test_the_diagram_that_meets_it_is_in_words_and_a_plan_if_there_is_one(capsys, folder):
    (folder / "brief.yaml").write_text("num_rooms: 2\n")
    write_diagrams("pair.jsonl", [BubbleDiagram((2, 3), [(0, 1, 2)])])
    out, _, _ = run(capsys, "check", "brief.yaml", "plans=pair.jsonl")
    assert "this diagram:\n  1 kitchen, 1 bathroom\n  kitchen left of bathroom\n" in out
    out, _, _ = run(capsys, "check", "brief.yaml", "plans=none")
    assert "this diagram:\n  2 living rooms\n" in out


def test_none_of_them(capsys, folder):
    (folder / "brief.yaml").write_text("rooms: {Kitchen: 4}\n")
    out, _, status = run(capsys, "check", "brief.yaml", "plans=plans.jsonl")
    assert "none of 200" in out
    assert f"{exact_interval(0, 200)[1]:.2g}" in out
    assert status == 0


@pytest.mark.slow
@needs_solver
def test_of_buildable_ones_some_are_decided(capsys, folder):
    (folder / "brief.yaml").write_text("rooms: {Kitchen: 1}\nbuildable: true\n")
    out, _, _ = run(capsys, "check", "brief.yaml", "--plans", "plans.jsonl")
    assert "first 20" in out
    assert "floor plan" in out


def test_the_embedded_plans_are_looked_at_unasked(capsys, monkeypatch):
    monkeypatch.setattr(embedded, "cached_plans", lambda num, seed: sample_plans(100, seed))
    out, _, _ = run(capsys, "check", "brief.yaml")
    assert "of 100" in out
    assert "embedded" in out
    out, _, _ = run(capsys, "check", "brief.yaml", "--relations", "adjacency")
    assert "--plans" in out
    out, _, _ = run(capsys, "check", "brief.yaml", "--plans", "none")
    assert "embedded" not in out


def test_a_contradiction_ends_with_its_lines(capsys, folder):
    text = "named: {cook: Kitchen, dog: Bathroom}\nrelations:\n- cook above dog\n- dog above cook\n"
    (folder / "brief.yaml").write_text(f"num_rooms: 5\n{text}")
    out, _, status = run(capsys, "check", "brief.yaml")
    assert status == 1
    for word in ("brief.yaml, line 4", "brief.yaml, line 5", "relations[0]", "dog above cook"):
        assert word in out
    assert "line 1" not in out
    assert "embedded" not in out


def test_without_a_solver_it_says_what_was_not_decided(capsys, monkeypatch):
    monkeypatch.setattr(box_model, "find_spec", lambda name: None)
    out, _, status = run(capsys, "check", "brief.yaml", "--plans", "none")
    assert "not decided" in out
    assert install_command("plans") in out
    assert status == 0


def test_what_a_diagram_does_not_say_is_named(capsys, folder):
    (folder / "brief.yaml").write_text('{"rooms": [{"usage": "kitchen", "desired_area_m2": 9}]}')
    out, _, _ = run(capsys, "check", "brief.yaml", "--plans", "none")
    assert "left out" in out
    assert "desired_area_m2" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "wrong.yaml"], ["wrong.yaml", "line 2", "rooms.Kichen", "Kitchen"]),
        (["check", "none.yaml"], ["none.yaml"]),
        (["check", "brief.yaml", "--max-nodes", "0"], ["max-nodes"]),
        (["check", "brief.yaml", "--relations", "direction"], ["directions"]),
        (["check", "brief.yaml", "--plans", "none.jsonl"], ["none.jsonl"]),
        (["chek", "brief.yaml"], ["check"]),
        (["check"], ["FILE"]),
    ],
)
def test_errors_are_one_sentence(capsys, folder, words, said):
    (folder / "wrong.yaml").write_text("rooms:\n  Kichen: 1\n")
    _, err, status = run(capsys, *words)
    assert status == 1
    assert len(err.splitlines()) == 1
    for word in said:
        assert word in err


def test_help_names_the_command(capsys):
    out, _, _ = run(capsys, "--help")
    assert "brief check FILE" in out
    main(["--help"])
    assert "brief   check FILE" in capsys.readouterr().out


@pytest.mark.parametrize(("hits", "num"), [(0, 50), (1, 50), (25, 50), (50, 50), (3, 20_000)])
def test_the_interval_is_that_of_the_binomial(hits, num):
    from scipy.special import bdtr, bdtrc

    low, high = exact_interval(hits, num)
    tail = 0.05 if hits in (0, num) else 0.025
    assert low == 0 if hits == 0 else bdtrc(hits - 1, num, low) == pytest.approx(tail)
    assert high == 1 if hits == num else bdtr(hits, num, high) == pytest.approx(tail)
    assert low <= hits / num <= high
