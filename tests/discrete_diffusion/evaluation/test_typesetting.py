"""``table.tex`` of three seeds and five algorithms: parsed; and differences to a baseline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from compared_models import BY
from discrete_diffusion.evaluation.bound import DrawTail
from discrete_diffusion.evaluation.comparison import Baseline, ComparedModel, Comparison
from discrete_diffusion.evaluation.comparison_table import (
    check_columns,
    comparison_table,
    table_notes,
)
from discrete_diffusion.evaluation.tables import Table, TableColumn, escape_latex

ALGORITHMS = ("mdlm", "udlm", "sedd", "my_own & co", "ar")
SHIFTS = (0.0, 0.02, 1.5, -0.01, 3.0)


def comparison(**options) -> Comparison:
    """Bounds of 200 samples and shares of 400; ``ar`` has another backbone in its place."""
    generator = torch.Generator().manual_seed(0)
    shared = 20 + 3 * torch.randn(1, 200, generator=generator, dtype=torch.float64)
    models = []
    for name, shift in zip(ALGORITHMS, SHIFTS, strict=True):
        noise = 0.3 * torch.randn(3, 200, generator=generator, dtype=torch.float64)
        shares = [0.9 - shift / 10 + 0.01 * seed for seed in range(3)]
        models.append(
            ComparedModel(
                name,
                backbone="dit" if name == "ar" else "bd-denoiser",
                model="dit_tiny" if name == "ar" else "bd_tiny",
                instead_of="bd-denoiser" if name == "ar" else None,
                parameters=182_556,
                quantity="nats per unordered diagram",
                values={"nelbo": shared + shift + noise},
                metrics={
                    "valid": shares,
                    "relation_tv": [0.02 + share / 100 for share in shares],
                    "num_samples": [400.0] * 3,
                    "num_distinct": [12.0 if name == "sedd" else 390.0] * 3,
                    "network_calls": [20.0] * 3,
                    "seconds_training": [60.0 + shift] * 3,
                },
                config=OmegaConf.create(),
                folder=Path(),
                tail=DrawTail(0.8, 12.0, 0.3, 200, 2) if name == "udlm" else None,
            )
        )
    guess = Baseline("50% guess", {"nelbo": shared[0] + 9}, {})
    measured, columns = BY.measures, BY.columns
    return Comparison(
        tuple(models), (0, 1, 2), measured, columns, "test", 2, baselines=(guess,), **options
    )


def cells_of(latex: str) -> list[list[str]]:
    """Texts of the cells of every row, the head first."""
    rows = [line for line in latex.splitlines() if line.endswith(r" \\")]
    return [re.split(r"(?<!\\) & ", row.removesuffix(r" \\")) for row in rows]


def check_latex(latex: str, num_columns: int) -> None:
    """Environments and braces are balanced, rows are of one length, nothing is left unescaped."""
    body = "\n".join(line for line in latex.splitlines() if not line.startswith("%"))
    assert re.findall(r"\\(begin|end)\{(\w+)\}", body) == [("begin", "tabular"), ("end", "tabular")]
    plain = re.sub(r"\\[{}]", "", body)
    depth = [plain[:k].count("{") - plain[:k].count("}") for k in range(len(plain) + 1)]
    assert min(depth) == depth[-1] == 0
    rows = cells_of(latex)
    assert {len(row) for row in rows} == {num_columns}
    for cell in (cell for row in rows for cell in row):
        assert cell.isascii()
        assert cell.count("$") % 2 == 0 or r"\$" in cell
        assert not re.search(r"(?<!\\)[%#&_^~]", cell)
    rules = re.findall(r"\\(toprule|midrule|bottomrule)", body)
    assert (rules[0], rules[-1], {*rules[1:-1]}) == ("toprule", "bottomrule", {"midrule"})


def table(columns=None, against=None) -> tuple[Table, list[str]]:
    found = comparison(against=against)
    made = comparison_table(found, {"valid": 1.0}, columns=columns, with_sizes=True, mark_best=True)
    return made, table_notes(found)


@pytest.mark.parametrize("columns", [None, ["nelbo", "valid", "valid_difference"]])
def test_a_table_of_three_seeds_and_five_algorithms_is_typeset(columns):
    made, notes = table(columns)
    latex = made.latex(notes)
    check_latex(latex, len(made.columns))
    head, real, *rows = cells_of(latex)
    assert real[0] == "real data"
    assert [row[0] for row in rows][:4] == ["mdlm", "udlm", "sedd", r"my\_own \& co"]
    assert rows[-1][0] == r"50\% guess"
    assert latex.count(r"\midrule") == 3
    for note in notes:
        assert f"% {note}\n" in latex
    assert any(r"\shortstack[r]{" in each for each in head)


def test_the_best_and_what_is_tied_with_it_are_bold():
    made, _ = table()
    bold = {(made.rows[row][0], made.columns[k].name) for row, k in made.best}
    own = comparison()
    first = own.models[3]  # the smallest bound
    tied = {first.algorithm}
    for model in own.models:
        apart = own.apart(model, first, "nelbo")
        if abs(apart.mean) <= 1.96 * apart.standard_error:
            tied.add(model.algorithm)
    assert {name for name, column in bold if column == "nelbo"} == tied
    assert tied == {"mdlm", "my_own & co"}  # pairing tells udlm, 0.03 nats away, apart
    tied.add("udlm")
    assert {name for name, column in bold if column == "valid"} == tied
    assert not any(column.endswith("difference") for _, column in bold)
    assert {name for name, column in bold if column == "network_calls"} == {*ALGORITHMS}
    assert {name for name, column in bold if column == "seconds_training"} == tied
    latex = made.latex()
    assert latex.count(r"\textbf{") == len(made.best)


def test_columns_are_chosen_and_ordered():
    made, _ = table(["network_calls", "valid", "backbone", "nelbo"])
    names = [column.name for column in made.columns]
    assert names == ["algorithm", "network_calls", "valid", "backbone", "nelbo"]
    whole, _ = table()
    for name in names:
        here, there = names.index(name), [c.name for c in whole.columns].index(name)
        assert [row[here] for row in made.rows] == [row[there] for row in whole.rows]
    assert {made.columns[k].name for _, k in made.best} == {"network_calls", "valid", "nelbo"}
    with pytest.raises(ValueError, match=r"'vald'; did you mean 'valid'\? Available: .*nelbo"):
        check_columns(["vald"], BY.measures, BY.columns)
    check_columns(["valid_difference", "model", "difference"], BY.measures, BY.columns)


def test_differences_are_to_the_reference_of_the_same_backbone():
    own = comparison(against="udlm")
    base = own.models[1]
    assert own.difference(base, "nelbo") is None
    for model in (own.models[0], own.models[4]):  # the last one stands in for that backbone
        found = own.difference(model, "nelbo")
        assert found == own.apart(model, base, "nelbo")
        apart = model.values["nelbo"] - base.values["nelbo"]
        assert found.mean == pytest.approx(float(apart.mean()))
        column = BY.columns[0]
        shares = own.metric_difference(model, column)
        assert shares.mean == pytest.approx(model.mean("valid") - base.mean("valid"))
        expected = model.estimate(column), base.estimate(column)
        assert shares.standard_error == pytest.approx(
            sum(each.standard_error**2 for each in expected) ** 0.5
        )
    made, _ = table(["difference", "valid_difference"], against="udlm")
    assert made.heads[1] == "difference to udlm ↓"
    assert made.rows[2][1:] == ("", "")
    assert made.rows[1][1].startswith("-0.0")
    row = own.rows()[4]
    assert row["difference"] == own.difference(own.models[4], "nelbo").mean
    assert row["valid_difference"] == own.metric_difference(own.models[4], BY.columns[0]).mean


def test_a_reference_may_stand_in_for_a_backbone_or_be_missing():
    own = comparison(against="ar")
    for model in own.models[:4]:
        assert own.difference(model, "nelbo") == own.apart(model, own.models[4], "nelbo")
    assert own.difference(own.models[4], "nelbo") is None
    own = comparison(against="mdlm")
    assert any("to mdlm with the same backbone" in note for note in table_notes(own))
    alone = ComparedModel(
        **{**vars(own.models[2]), "backbone": "bd-denoiser-pair", "instead_of": None}
    )
    assert own.base(alone, "nelbo") is None
    assert own.difference(alone, "nelbo") is None


def test_notes_tell_few_distinct_samples_and_doubtful_bounds():
    made, notes = table()
    (few,) = [note for note in notes if "distinct" in note]
    assert few == "valid, relation TV of sedd: of few distinct samples, 12 of 400."
    (tail,) = [note for note in notes if "noise_samples" in note]
    assert "of udlm" in tail
    doubtful = {
        (i, j) for i, row in enumerate(made.rows) for j, cell in enumerate(row) if "few" in cell
    }
    assert doubtful == {(2, 3), (2, 4)}


def test_special_characters_are_escaped():
    text = r"a\b & 5% $x$ #1 under_score {c} ~d ^e <f> | ± – ↑ ↓"
    column = TableColumn("n", text, is_text=True)
    latex = Table((column,), ((text,), ("-1",)), (0, 2, 0)).latex([text])
    check_latex(latex, 1)
    assert escape_latex("5%_{") == r"5\%\_\{"
