"""Sudoku and graph colouring: what is made, what is measured, and the commands of the page."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from itertools import islice

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from discrete_diffusion import load
from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.cli import compose, main
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.data import SPLITS
from discrete_diffusion.domains import build_data, domain_of
from discrete_diffusion.domains.puzzles.data import PuzzleDataset, PuzzleReport
from discrete_diffusion.domains.puzzles.puzzle import GraphColouring, Sudoku, solutions
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Model, build_sampler
from guide_code import DOCS, blocks

PAGE = "puzzles.md"
SOLVED = "1234341221434321"


def built(name: str, **values) -> PuzzleDataset:
    data = OmegaConf.load(shipped_files("data")[name])
    found = build_data(OmegaConf.create({"data": OmegaConf.merge(data, values)}))
    assert isinstance(found, PuzzleDataset)
    return found


def is_grid(row: list[int], box: int) -> bool:
    """Every row, column and box holds every digit."""
    side, every = box**2, {*range(box**2)}
    grid = [row[k : k + side] for k in range(0, side * side, side)]
    boxes = [
        {grid[r + i][c + j] for i in range(box) for j in range(box)}
        for r in range(0, side, box)
        for c in range(0, side, box)
    ]
    return all({*unit} == every for unit in [*grid, *zip(*grid, strict=True), *boxes])


def all_rows(data: PuzzleDataset) -> torch.Tensor:
    return torch.cat([data.splits[name].x0 for name in SPLITS])


def test_all_grids_of_4x4_are_made_and_each_stands_in_one_split():
    data = built("sudoku")
    rows = [tuple(row) for row in all_rows(data).tolist()]
    assert len(rows) == len({*rows}) == 288
    assert all(is_grid([*row], 2) for row in rows)
    assert [len(data.splits[name]) for name in SPLITS] == [230, 29, 29]


def test_grids_of_4x4_are_equally_likely():
    sudoku, counts, num = Sudoku(box=2, share_of_clues=0.4), Counter(), 100
    for seed in range(num):
        counts.update(map(tuple, sudoku.make(72, random.Random(seed))))
    mean, variance = num / 4, num / 4 * 3 / 4
    spread = sum((counts[grid] - mean) ** 2 for grid in counts) / variance
    assert len(counts) == 288
    assert abs(spread - 288) < 5 * (2 * 288) ** 0.5


def test_grids_of_9x9_keep_the_rules_and_a_seed_fixes_them():
    data = built("sudoku", box=3, num_puzzles=30)
    rows = [tuple(row) for row in all_rows(data).tolist()]
    assert len({*rows}) == 30
    assert all(is_grid([*row], 3) for row in rows)
    again = built("sudoku", box=3, num_puzzles=30)
    assert again.fingerprint() == data.fingerprint()
    assert built("sudoku", box=3, num_puzzles=30, generator_seed=1).fingerprint() != (
        data.fingerprint()
    )


@pytest.mark.parametrize("share", [0.25, 0.4])
def test_clues_of_4x4_leave_one_of_all_grids(share):
    data = built("sudoku", share_of_clues=share)
    grids, clamp = all_rows(data), data.clamp("test", 40)
    agree = ((clamp.unsqueeze(1) == grids) | (clamp < 0).unsqueeze(1)).all(dim=2)  # (40, 288)
    assert agree.sum(dim=1).tolist() == [1] * 40
    assert int((clamp >= 0).sum(dim=1).min()) == round(16 * share)
    assert torch.equal(grids[agree.nonzero()[:, 1]], data.splits["test"].x0[torch.arange(40) % 29])
    assert not torch.equal(clamp[0] < 0, clamp[29] < 0)  # other clues of the same grid


def test_clues_of_9x9_leave_one_solution():
    data = built("sudoku", box=3, num_puzzles=20, split=[0.5, 0.25, 0.25])
    for clamp, x in zip(data.clamp("val", 5), data.splits["val"].x0, strict=True):
        assert int((clamp >= 0).sum()) == 32
        left = [511 if value < 0 else 1 << value for value in clamp.tolist()]
        peers = [row.nonzero().flatten().tolist() for row in data.puzzle.rules]
        assert [*islice(solutions(left, peers), 2)] == [x.tolist()]


def test_no_clues_and_all_clues():
    assert (built("sudoku", share_of_clues=0).clamp("test", 3) == -1).all()
    assert (built("sudoku", share_of_clues=0.01).clamp("test", 3) >= 0).sum(dim=1).min() >= 4
    data = built("sudoku", share_of_clues=1)
    assert torch.equal(data.clamp("test", 3), data.splits["test"].x0[:3])
    assert data.clamp("test", 0).shape == (0, 16)


def test_colourings_of_a_graph_are_equally_likely():
    puzzle, counts = GraphColouring(num_nodes=4, num_colours=2, share_of_edges=0.4), Counter()
    counts.update((tuple(x[:6]), tuple(x[6:])) for x in puzzle.make(12_000, random.Random(0)))
    balanced = {colours for _, colours in counts}
    assert len(balanced) == 6
    spread, freedom = 0.0, 0
    for graph in {graph for graph, _ in counts}:
        edges = [pair for pair, given in zip(puzzle.pairs, graph, strict=True) if given]
        proper = [c for c in balanced if all(c[i] != c[j] for i, j in edges)]
        found = [counts[graph, c] for c in proper]
        assert sum(found) == sum(n for (other, _), n in counts.items() if other == graph)
        mean = sum(found) / len(found)
        spread += sum((n - mean) ** 2 / mean for n in found)
        freedom += len(found) - 1
    assert freedom > 20
    assert abs(spread - freedom) < 4.5 * (2 * freedom) ** 0.5


def test_edges_are_given_and_colours_are_sampled():
    data = built("graph_colouring", num_nodes=5, num_puzzles=50)
    assert data.layout.num_given == 10
    assert (data.splits["train"].real == torch.tensor([False] * 10 + [True] * 5)).all()
    clamp = data.clamp("val", 7)
    assert (clamp[:, 10:] == -1).all()
    assert torch.equal(clamp[:5, :10], data.splits["val"].x0[:, :10])


@pytest.mark.parametrize(
    "puzzle",
    [
        Sudoku(box=2, share_of_clues=0.4),
        Sudoku(box=3, share_of_clues=0.4),
        GraphColouring(num_nodes=6, num_colours=3, share_of_edges=0.5),
    ],
)
def test_text_and_back(puzzle):
    for k, row in enumerate(puzzle.make(5, random.Random(1))):
        x = torch.tensor(row)
        for each in (x, puzzle.clues(x, random.Random(k))):
            assert torch.equal(puzzle.encode(puzzle.decode(each)), each)
    assert not puzzle.conflicts(x[None]).any()


def test_an_edge_may_begin_with_either_node():
    puzzle = GraphColouring(num_nodes=12, num_colours=3, share_of_edges=0.5)
    cells = ": 1" + 11 * "."
    x = puzzle.encode("4-0 2-11 1-10" + cells)
    assert torch.equal(x, puzzle.encode("0-4 11-2 10-1 1-10" + cells))
    assert puzzle.decode(x) == "0-4 1-10 2-11" + cells
    for wrong in ("4-4", "0-12", "0-1-2", "4", "-"):
        said = f"unknown pair '{wrong}': expected i-j with 0 <= i < j < 12"
        with pytest.raises(ValueError, match=f"^{said}$"):
            puzzle.encode(f"0-1 {wrong}{cells}")


def test_what_is_measured_counts_broken_rules():
    data = built("sudoku")
    report, x = PuzzleReport(data), data.puzzle.encode(SOLVED)
    broken = x.clone()
    broken[0] = 1  # 2 stands in the row at 1, in the column at 8, in the box at 1
    assert data.puzzle.conflicts(broken[None])[0].any(dim=1).nonzero().flatten().tolist() == [
        *(0, 1, 8)
    ]
    found = report.measure(torch.stack([x, broken, torch.zeros_like(x), x]))
    assert found == pytest.approx({"solved": 0.5, "cells_without_conflict": 1 - 19 / 64})
    assert report.measure(x[:0].view(0, 16)) == {}
    assert report.measure_real(5) == {"solved": 1.0, "cells_without_conflict": 1.0}
    graphs = built("graph_colouring", num_nodes=3, num_puzzles=20)
    one = graphs.puzzle.encode("0-1 0-2: ...").clamp(min=0)  # all of one colour
    found = PuzzleReport(graphs).measure(one[None])
    assert found == {"solved": 0.0, "cells_without_conflict": 0.0}
    one[4] = 1
    assert PuzzleReport(graphs).measure(one[None])["cells_without_conflict"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("12", r"'12': expected 16 cells, each of 1234, or \. if open"),
        ("1" * 15 + "5", "expected 16 cells, each of 1234"),
        ("1...1...........", "cells 0 and 4, counted from 0, must differ and are both 1"),
        ("0-1: " + SOLVED, "unknown pair '0-1': expected cells alone"),
    ],
)
def test_text_that_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        Sudoku(box=2, share_of_clues=0.4).encode(text)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("sudoku", {"box": 4}, r"^data\.box=4: expected a whole number in \[2, 3\]"),
        ("sudoku", {"share_of_clues": 1.2}, r"^data\.share_of_clues=1\.2: expected a number in"),
        ("sudoku", {"num_puzzles": 0}, r"^data\.num_puzzles=0: expected a whole number"),
        ("graph_colouring", {"num_colours": 10}, r"^data\.num_colours=10: expected"),
        ("graph_colouring", {"share_of_edges": 0}, r"^data\.share_of_edges=0: expected"),
    ],
)
def test_keys_that_are_refused(name, values, said):
    with pytest.raises(ValueError, match=said):
        built(name, **values)


def test_grids_of_a_file(tmp_path):
    file = tmp_path / "grids.txt"
    other = SOLVED.translate(str.maketrans("1234", "2143"))
    file.write_text("\n".join([SOLVED, other, SOLVED, ""]))
    data = built("sudoku", path=str(file), split=[0.5, 0.5, 0])
    assert [*map(data.puzzle.decode, all_rows(data))] == [SOLVED, other]
    for line, said in ((SOLVED[:-1] + "2", "must differ"), (SOLVED[:-1] + ".", "a cell is open")):
        file.write_text(f"{SOLVED}\n{line}\n")
        with pytest.raises(ValueError, match=rf"grids\.txt, line 2: .*{said}.*mend the line"):
            built("sudoku", path=str(file))


class KnownGrids(nn.Module):
    """The exact denoiser of equally likely rows: shares of those that agree with what is shown."""

    def __init__(self, rows: torch.Tensor, mask_id: int) -> None:
        super().__init__()
        self.rows, self.mask_id = rows, mask_id

    def forward(self, x_t, sigma):
        shown = (x_t != self.mask_id).unsqueeze(1)
        agree = ((x_t.unsqueeze(1) == self.rows) | ~shown).all(dim=2).double()  # (B, M)
        values = nn.functional.one_hot(self.rows, self.mask_id + 1).double()
        return torch.einsum("bm,mlv->blv", agree, values).log().clamp(min=-1e4).float()


def exact_model(data: PuzzleDataset, **settings) -> Model:
    network = KnownGrids(all_rows(data), data.layout.mask_id)
    algorithm = MDLM(network, Absorbing(data.layout, LogLinear()))
    return Model(algorithm, build_sampler({"name": "first-hitting"}), **settings)


def test_the_exact_denoiser_solves_everything_and_its_grids_are_equally_likely():
    data = built("sudoku")
    report = PuzzleReport(data, "test")
    drawn = report.sample_with_calls(exact_model(data), 58, seed=0)
    assert torch.equal(drawn.tokens, data.splits["test"].x0.repeat(2, 1))
    assert drawn.network_calls < 11
    # with all tokens in one call it is not, unless the clues leave no choice
    assert report.measure(report.sample(exact_model(data, steps=1), 58, 0))["solved"] == 1.0
    free = PuzzleReport(built("sudoku", share_of_clues=0), "test")
    assert free.measure(free.sample(exact_model(data, steps=1), 58, 0))["solved"] < 0.1
    x0 = free.sample(exact_model(data), 2880, seed=1)
    counts = Counter(map(tuple, x0.tolist()))
    spread = sum((n - 10) ** 2 / 10 for n in counts.values()) + 10 * (288 - len(counts))
    assert {*counts} <= {*map(tuple, all_rows(data).tolist())}
    assert abs(spread - 287) < 4.5 * (2 * 287) ** 0.5
    # all clues: nothing is sampled
    full = PuzzleReport(built("sudoku", share_of_clues=1), "test")
    found = full.sample_with_calls(exact_model(data), 5, seed=0)
    assert torch.equal(found.tokens, data.splits["test"].x0[:5])
    assert found.network_calls == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the models of the page, trained for a few steps."""
    work = tmp_path_factory.mktemp("puzzles")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        for num in range(2):
            main([*words_of("train", num), "debug=smoke", "data.num_puzzles=100"])
        (work / "puzzles.txt").write_text("1...............\n................\n")
        yield work


def words_of(command: str, num: int = 0) -> list[str]:
    """The words of a command of the page, but for the number of steps."""
    (console,) = blocks(PAGE, "console")
    lines = [line.split()[2:] for line in console.splitlines() if line.split()[2] == command]
    return [word for word in lines[num] if not word.startswith("trainer.max_steps=")]


def texts(folder, name: str) -> list[str]:
    return (folder / name / "samples.txt").read_text().splitlines()


@pytest.mark.slow
def test_training_and_sampling(folder):
    metrics = json.loads((folder / "runs/sudoku/metrics.json").read_text())
    assert 0 <= metrics["solved"] <= 1
    main(words_of("sample"))
    data = built("sudoku", num_puzzles=100)
    clamp = data.clamp("test", 8)
    found = torch.stack([*map(lenient, texts(folder, "samples"))])
    assert torch.equal(found[clamp >= 0], clamp[clamp >= 0])
    main(words_of("sample", 1))
    solved = texts(folder, "solved")
    assert len(solved) == 4
    assert all(text[0] == "1" for text in solved[:2])
    assert load("runs/sudoku").sample(given=["1" + 15 * "."], num_completions=2)[0][0] == "1"


def lenient(text: str) -> torch.Tensor:
    """Ids of a grid that may break the rules."""
    return torch.tensor(["1234".index(digit) for digit in text])


@pytest.mark.slow
def test_colouring_keeps_the_edges(folder):
    main(["sample", "checkpoint=runs/colouring", "num_samples=3", "out=coloured"])
    data = built("graph_colouring", num_puzzles=100)
    given = [data.puzzle.decode(x).split(":")[0] for x in data.clamp("test", 3)]
    assert [text.split(":")[0] for text in texts(folder, "coloured")] == given
    (folder / "graphs.txt").write_text("0-1 1-2: 1.....\n")
    main(["sample", "checkpoint=runs/colouring", "given=graphs.txt", "out=own"])
    assert all(re.fullmatch(r"0-1 1-2: 1[123]{5}", text) for text in texts(folder, "own"))
    assert len(texts(folder, "own")) == 4


@pytest.mark.slow
def test_evaluating_and_comparing(folder, capsys):
    small = ["num_samples=8", "noise_samples=1", "time_bins=2"]
    main([*words_of("evaluate"), *small])
    metrics = json.loads((folder / "evaluation/metrics.json").read_text())
    assert metrics["changed_data"] == {"share_of_clues": 0.75}
    assert metrics["network_calls_per_sample"] == 4
    assert metrics["solved_real_data"] == 1.0
    main(["evaluate", "checkpoint=runs/sudoku", "quick=true", "out=quick"])
    few = ["num_held_out=5", "noise_samples=1", "eval.num_samples=8"]
    main([*words_of("compare"), "debug=smoke", "data.num_puzzles=100", *few])
    results = json.loads((folder / "compared/results.json").read_text())
    assert [row["backbone"] for row in results["models"]] == ["my-transformer", "dit"]
    assert [row["network_calls"] for row in results["models"]] == [10, 10]
    with pytest.raises(SystemExit):
        main([*words_of("evaluate"), "data.box=3", "overwrite=true"])
    assert "data.box=3: the model was trained with data.box=2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_wrong_line_of_given_is_named(folder, capsys):
    (folder / "wrong.txt").write_text("1...............\n11..............\n")
    with pytest.raises(SystemExit):
        main(["sample", "checkpoint=runs/sudoku", "given=wrong.txt", "out=wrong"])
    assert "wrong.txt, line 2: cells 0 and 1, counted from 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["sample", "checkpoint=runs/sudoku", "data.share_of_clues=0", "out=wrong"])
    assert "share of clues of training, and evaluate takes another" in capsys.readouterr().err


def test_the_page_says_what_the_data_are():
    data: DictConfig = compose("train", ["data=sudoku"]).data
    assert domain_of(data).name == "puzzles"
    assert "288" in (DOCS / PAGE).read_text()
