"""Read published files of molecules: what comes back from atoms and bonds, what the metrics say.

    python benchmarks/molecule_files.py --qm9 qm9.csv.gz --zinc valid.txt.gz test.txt.gz

Writes ``benchmarks/results/molecule_files.json`` and its tables in the docs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.molecules.build import split_rows
from discrete_diffusion.domains.molecules.metrics import sample_shares, verdicts_of
from discrete_diffusion.domains.molecules.molecule import parse_atom
from discrete_diffusion.domains.molecules.molecule_files import read_rows
from discrete_diffusion.domains.molecules.reading import changed_rows, read_molecules
from discrete_diffusion.domains.molecules.samples import score_molecules
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

QM9_MOLECULES = 133_885
"""Of the published data set; the file of SMILES lacks those that could not be written as SMILES."""

PUBLISHED = {"valid": 0.993, "valid_relaxed": 0.995, "unique": 0.992}
"""The training set in the tables of DeFoG (arXiv 2410.04263)."""

TRAIN = 100_000


def round_trip(path: Path) -> dict[str, Any]:
    """Molecules of a file, charges kept, with the same canonical SMILES when they come back."""
    found = read_molecules(path, charges="kept")
    smiles = {row.line: row.text for row in read_rows(path)}
    changed = changed_rows(found, smiles)
    charges = [[parse_atom(atom)[1] for atom in molecule.atoms] for molecule in found.molecules]
    return {
        "file": path.name,
        "rows": len(smiles),
        "read": len(found),
        "with_charges": sum(map(any, charges)),
        "with_a_net_charge": sum(sum(each) != 0 for each in charges),
        "same": len(found) - len(changed),
        "examples": [f"{before} became {after}" for _, before, after in changed[:3]],
    }


def training_line(path: Path, num_samples: int, seed: int) -> dict[str, Any]:
    """Validity of 100,000 rows drawn at random, as DiGress splits, and of the training split here;
    distances of some of them from the test split."""
    found = read_molecules(path, charges="ignored")
    order = torch.randperm(len(found), generator=make_generator(seed)).tolist()
    rows = split_rows(found.molecules, [TRAIN, None, 0.1], seed=0)
    parts = {
        name: verdicts_of([found.molecules[row] for row in part]) for name, part in rows.items()
    }
    reference = [verdict.relaxed for verdict in parts["test"] if verdict.relaxed is not None]
    scores = score_molecules([parts["train"][:num_samples]], reference, None, None)
    return {
        "rows": len(found),
        "rows_drawn": sample_shares(
            verdicts_of([found.molecules[row] for row in order[:TRAIN]]), None
        ),
        "split_by_molecule": sample_shares(parts["train"], None),
        "num_measured": num_samples,
        "num_reference": len(reference),
        "distances": {name: values[0] for name, values in scores.per_seed.items()},
    }


def sections(record: Record) -> Sections:
    results = record.results
    heads = ["file", "rows", "read", "with charges", "with a net charge", "the same afterwards"]
    trips = markdown_table(
        heads,
        [
            [
                each["file"],
                f"{each['rows']:,}",
                f"{each['read']:,}",
                f"{each['with_charges']:,}",
                f"{each['with_a_net_charge']:,}",
                f"{each['same']:,} ({100 * each['same'] / each['read']:.2f} %)",
            ]
            for each in results["round_trips"]
        ],
    )
    line = results["training"]
    drawn, split = line["rows_drawn"], line["split_by_molecule"]
    names = {"valid": "valid", "valid_relaxed": "valid, relaxed", "unique": "unique"}
    rows = [
        [
            shown,
            *(f"{100 * value[name]:.2f} %" for value in (drawn, split)),
            f"{100 * PUBLISHED[name]:.1f} %",
        ]
        for name, shown in names.items()
    ]
    share = line["rows"] / QM9_MOLECULES
    found = line["distances"]
    text = "\n\n".join(
        [
            markdown_table(
                ["training molecules", "100,000 rows", "our training split", "published"], rows
            ),
            f"The file has {line['rows']:,} of {QM9_MOLECULES:,} molecules; counting those it "
            f"lacks as refused, relaxed validity is {100 * share:.2f} %. "
            f"{line['num_measured']:,} training molecules against the {line['num_reference']:,} "
            f"of the test split: FCD {found['fcd']:.3f} (of all, corrected: "
            f"{found['fcd_corrected']:.3f}), NSPDK MMD {found['nspdk_mmd']:.6f}, similarity of "
            f"scaffolds {found['scaffold_similarity']:.3f}.",
        ]
    )
    return {(Part.GRAPHS, "round trips"): trips, (Part.GRAPHS, "training line"): text}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--qm9", type=Path, required=True, help="a file of QM9's SMILES")
    parser.add_argument("--zinc", type=Path, nargs="*", default=[], help="files of ZINC's")
    parser.add_argument("--num-samples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="draws the 100,000 rows")
    arguments = parser.parse_args()
    results = {
        "round_trips": [round_trip(path) for path in (arguments.qm9, *arguments.zinc)],
        "training": training_line(arguments.qm9, arguments.num_samples, arguments.seed),
    }
    publish("molecule_files", command=typed(), seed=arguments.seed, results=results)


if __name__ == "__main__":
    main()
