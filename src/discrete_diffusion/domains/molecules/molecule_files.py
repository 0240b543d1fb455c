"""Files of molecules: read lists of SMILES, tables, SDF and sampled graphs, compressed or not, and
write samples."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discrete_diffusion.data.files import TableError, load_json, read_text, split_lines, table_rows
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.domain import SDF, SMILES_TABLE
from discrete_diffusion.domains.molecules.molecule import BONDS, NOTHING, Molecule, MoleculeError
from discrete_diffusion.evaluation.sample_kind import SampleFile
from discrete_diffusion.runtime.atomic_files import write_text
from discrete_diffusion.runtime.inputs import JSON_LINES, GivenObjects, check_kind, suffix_of

_MARKS = (",", "\t", ";")
_END_OF_BLOCK = "$$$$"

_EXPECTED = "a list of SMILES, a table with a column smiles, or SDF"

SMILES_FILE, GRAPH_FILE = "samples.smi", "samples.jsonl"


class Row(NamedTuple):
    """SMILES or a mol block, and the number of its line in the file, from 1 on."""

    line: int
    text: str


def read_rows(
    path: str | Path | GivenObjects, column: str | None = None, *, keep_blank: bool = False
) -> list[Row]:
    """Molecules of a file or of objects, as SMILES or mol blocks.

    A table has a header; ``column`` names the column to read, by default ``smiles`` in upper or
    lower case. SDF has mol blocks, whose data fields are not read. In any other text the first word
    of a line is SMILES and the rest its name; a first line ``smiles`` is a header. Blank lines are
    skipped, or with ``keep_blank`` rows without SMILES, since in a file of samples each stands for
    a failed sample.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence: no such file, another kind of
    file, no such column, no SMILES in it, not text.
    """
    # by the kind of the file
    source = read_text(path, SDF, SMILES_TABLE, expected=_EXPECTED)
    path = Path(source.name)
    if source.kind is SMILES_TABLE:
        rows = list(_tabulated(path, source.text, column, keep_blank))
    elif column is not None:
        raise ValueError(
            f"data.column={column}: {path} is a list, not a table; leave it out, or name the "
            "file .csv or .tsv"
        )
    elif source.kind is SDF:
        rows, first, lines = [], 1, split_lines(source.text)
        for number, line in enumerate([*lines, _END_OF_BLOCK], start=1):
            if line.startswith(_END_OF_BLOCK):
                block = "\n".join([*lines[first - 1 : number - 1], ""])
                rows += [Row(first, block)] if block.strip() else []
                first = number + 1
    else:
        rows = []
        for number, line in enumerate(split_lines(source.text), start=1):
            words = line.split()
            if not words and keep_blank:
                rows.append(Row(number, ""))
            elif words and not (number == 1 and words[0].lower() == "smiles"):
                rows.append(Row(number, words[0]))
    if not rows:
        raise ValueError(f"{path} holds no SMILES; expected one per line")
    return rows


def _tabulated(path: Path, text: str, column: str | None, keep_blank: bool) -> Iterator[Row]:
    # the mark with which the header has the column
    first = text.partition("\n")[0]
    default = "\t" if suffix_of(path) == ".tsv" else ","
    wanted = "smiles" if column is None else column.lower()
    # marks between cells, the usual one first
    fitting = (
        mark
        for mark in (default, *_MARKS)
        if wanted in {name.strip(' "\r').lower() for name in first.split(mark)}
    )
    rows = table_rows(io.StringIO(text, newline=""), next(fitting, default))
    # rows below the header
    try:
        _, header = next(rows, (1, []))
        place = _column_index(path, [name.strip() for name in header], column)
        for line, cells in rows:
            smiles = cells[place].strip() if place < len(cells) else ""
            if any(cells) or keep_blank:
                yield Row(line, smiles)
    except TableError as error:
        raise ValueError(f"{path}, {error}") from error


def _column_index(path: Path, header: list[str], column: str | None) -> int:
    # the named column, or smiles
    if column is not None and column in header:
        return header.index(column)
    lower = [name.lower() for name in header]
    if column is None and "smiles" in lower:
        return lower.index("smiles")
    # the message names the columns
    there = f"its columns are {', '.join(header)}"
    if column is not None:
        raise ValueError(f"data.column={column}: {path} has no such column; {there}")
    raise ValueError(
        f"{path} has no column smiles; {there}: name the one to read, data.column=NAME (a list "
        "without a header is a .smi or .txt file)"
    )


def read_samples(path: str, *, skip_invalid: bool = False) -> SampleFile[Molecule]:
    """Read the samples of a file, one for each line: graphs of JSON lines (``molecule_of_json``),
    or rows of ``read_rows``.

    Blank lines and SMILES that rdkit refuses count as failed samples, ``NOTHING``. So do wrong
    lines of JSON with ``skip_invalid``; otherwise ``ValueError`` names their file, line and field.
    """
    is_file = Path(path).is_file()  # the reader says so if it is not
    kinds = (SDF, SMILES_TABLE, JSON_LINES)
    if not is_file or check_kind(Path(path), kinds, _EXPECTED) is not JSON_LINES:
        lines = [row.text for row in read_rows(path, keep_blank=True)]
        return _sample_file(lines, list(map(_molecule_as_written, lines)))
    lines, molecules = split_lines(read_text(path, JSON_LINES).text), []
    for number, line in enumerate(lines, start=1):
        try:
            molecules.append(molecule_of_json(load_json(line)) if line.strip() else NOTHING)
        except ValueError as error:
            if not skip_invalid:
                raise ValueError(
                    f"{path}, line {number}: {error}; correct it, or count such lines as samples "
                    "that are not valid with skip_invalid=true"
                ) from error
            molecules.append(NOTHING)
    return _sample_file(lines, molecules)


def _sample_file(lines: Sequence[str], molecules: list[Molecule]) -> SampleFile[Molecule]:
    num_blank = sum(not line.strip() for line in lines)
    return SampleFile(molecules, len(molecules), molecules.count(NOTHING), num_blank)


def molecule_of_json(value: Any) -> Molecule:
    """Molecule of ``{"atoms": ["C", "O"], "bonds": [[0, 1, "double"]]}``; other keys are not read.
    ``null`` and an empty list of atoms are ``NOTHING``. Raises ``ValueError`` naming the field."""
    # null is a failed sample
    if value is None:
        return NOTHING
    if not isinstance(value, dict) or not isinstance(value.get("atoms"), list):
        raise ValueError('expected an object with a list "atoms", and "bonds"')
    # atoms with known elements
    atoms = value["atoms"]
    for atom in atoms:
        graphs.parse_atom(str(atom))
    # each bond between two atoms that have none yet
    bonds, seen = [], set()
    for k, bond in enumerate(value.get("bonds", [])):
        if not (isinstance(bond, list) and len(bond) == 3 and bond[2] in BONDS[:-1]):
            kinds = ", ".join(BONDS[:-1])
            raise ValueError(f"bonds[{k}]={bond}: expected [i, j, type], of type {kinds}")
        i, j, kind = bond
        if not all(isinstance(end, int) and 0 <= end < len(atoms) for end in (i, j)) or i == j:
            raise ValueError(f"bonds[{k}]={bond}: expected two different atoms of {len(atoms)}")
        pair = (min(i, j), max(i, j))
        if pair in seen:
            raise ValueError(f"bonds[{k}]={bond}: these atoms have a bond already")
        seen.add(pair)
        bonds.append((*pair, BONDS.index(kind)))
    return Molecule(tuple(map(str, atoms)), tuple(sorted(bonds)))


def _molecule_as_written(text: str) -> Molecule:
    """Read a molecule with its charges, valid or not; ``NOTHING`` for wrong syntax, and for an
    aromatic ring that cannot be Kekulised."""
    from rdkit import rdBase

    # chemistry may be wrong, syntax may not
    with rdBase.BlockLogs():
        try:
            mol = graphs.parse_molecule(text)
            if mol is None:
                mol = graphs.parse_molecule(text, sanitize=False)
                if mol is None:
                    return NOTHING
                mol.UpdatePropertyCache(strict=False)
            return graphs.from_rdkit(mol)
        except MoleculeError:
            return NOTHING


def molecule_as_json(molecule: Molecule) -> dict[str, Any]:
    """Record ``{"atoms": ["C", "O"], "bonds": [[0, 1, "double"]], "smiles": "C=O"}``; ``smiles`` is
    null where rdkit refuses the graph, and ``why`` is the reason. ``NOTHING`` has no atoms."""
    from rdkit import rdBase

    # SMILES, or the reason why there is none
    with rdBase.BlockLogs():
        mol = None if molecule == NOTHING else graphs.sanitised(molecule)
        facts: dict[str, Any] = {
            "atoms": list(molecule.atoms),
            "bonds": [[i, j, BONDS[kind]] for i, j, kind in molecule.bonds],
            "smiles": None if mol is None else graphs.smiles_of(mol),
        }
        if mol is None:
            mol = graphs.to_rdkit(molecule)
            facts["why"] = graphs.rdkit_objection(mol) if molecule.atoms else "no molecule"
    return facts


def json_lines_of_molecules(molecules: Iterable[Molecule], **more: Sequence[Any]) -> str:
    """Lines of JSON of molecules. ``more``: further keys, a value for each molecule."""
    records = [molecule_as_json(molecule) for molecule in molecules]
    for key, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[key] = value
    return "".join(f"{json.dumps(record)}\n" for record in records)


def write_molecules(molecules: Sequence[Molecule], folder: Path, **more: Sequence[Any]) -> int:
    """Write ``samples.jsonl`` with all molecules, and ``samples.smi`` with SMILES and their lines
    in ``samples.jsonl``. Return the number of molecules without SMILES."""
    lines = json_lines_of_molecules(molecules, **more)
    smiles = [json.loads(line)["smiles"] for line in lines.splitlines()]
    write_text(folder / GRAPH_FILE, lines)
    listed = [f"{text} {k}\n" for k, text in enumerate(smiles, start=1) if text is not None]
    write_text(folder / SMILES_FILE, "".join(listed))
    return smiles.count(None)
