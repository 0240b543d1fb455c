"""``discrete-diffusion data molecules FILE``: what a file of SMILES holds."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING

from discrete_diffusion.domains.commands import SubCommand

if TYPE_CHECKING:
    from discrete_diffusion.domains.molecules.reading import ReadMolecules


def check_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="SMILES (a list or a table) or SDF")
    parser.add_argument("--column", help="of a table (default: smiles)")
    parser.add_argument("--charges", choices=("kept", "ignored"), default="kept")


def check_file(options: Namespace) -> None:
    """Read a file of SMILES and say what it holds: sizes, atoms, what cannot be read, and how many
    molecules come back the same from atoms and bonds."""
    from discrete_diffusion.domains.molecules.reading import read_molecules

    found = read_molecules(options.file, charges=options.charges, column=options.column)
    print(found.summary())
    if not len(found):
        return
    sizes = Counter(len(molecule.atoms) for molecule in found.molecules)
    print(f"atoms of a molecule: {min(sizes)} to {max(sizes)} (data.n_max={max(sizes)})")
    atoms = Counter(atom for molecule in found.molecules for atom in molecule.atoms)
    shown = ", ".join(f"{atom} {count:,}" for atom, count in atoms.most_common())
    print(f"atoms: {shown} (data.atoms=[{','.join(atom for atom, _ in atoms.most_common())}])")
    print(f"different molecules: {len(set(found.molecules)):,}")
    _print_lost(found, options)


def _print_lost(found: ReadMolecules, options: Namespace) -> None:
    from discrete_diffusion.domains.molecules.molecule_files import read_rows
    from discrete_diffusion.domains.molecules.reading import changed_rows

    texts = {row.line: row.text for row in read_rows(options.file, options.column)}
    changed = changed_rows(found, texts)
    share = 1 - len(changed) / len(found)
    print(
        f"the same canonical SMILES, stereochemistry aside, after atoms and bonds: "
        f"{len(found) - len(changed):,} of {len(found):,} ({100 * share:.2f} %)"
    )
    for line, before, after in changed[:5]:
        print(f"  line {line:,}: {before} became {after}")


COMMANDS = {
    "molecules": SubCommand(
        "FILE   what a file of SMILES holds, and what cannot be read",
        check_options,
        check_file,
    )
}
