"""Kinds of files of molecules, by what stands in them."""

from __future__ import annotations

import re

from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, suffix_of

_CONVERT = "write it as SMILES or SDF, for example by Open Babel"
_ATOM = re.compile(r"\s*([A-Z][a-z]?|\d{1,3})(\s+-?\d+\.?\d*([eE][+-]?\d+)?){3}(\s|$)")


def _is_sdf(head: Head) -> bool:
    """True if the fourth line counts atoms and bonds, as that of a mol block does."""
    return len(head.lines) > 3 and re.search(r"\bV[23]000$", head.lines[3]) is not None


def _is_smiles_table(head: Head) -> bool:
    """True of a table by its name, or by a column smiles; a list of SMILES and names, with tabs
    between, may have such a header, too."""
    if suffix_of(head.path) in (".csv", ".tsv"):
        return not head.text.lstrip().startswith(("{", "[", "<"))
    names = [name.strip(' "').lower() for name in re.split(r"[,;\t]", head.lines[0])]
    return "smiles" in names and len(names) > 1 and "smiles\t" not in head.lines[0].lower()


def _is_xyz(head: Head) -> bool:
    """True if the first line says how many atoms follow the second one, and they do."""
    first, lines = head.lines[0].strip(), head.lines[2:]
    if not first.isdecimal() or len(first) > 5 or int(first) == 0:
        return False
    lines = lines[: min(int(first), 50)]
    return bool(lines) and all(_ATOM.match(line) for line in lines)


SDF = FileKind("SDF, a file of mol blocks", _is_sdf, "data=molecules reads it")

SMILES_TABLE = FileKind("a table of SMILES", _is_smiles_table, "data=molecules reads it")

MOLECULE_KINDS = (
    SDF,
    FileKind("XYZ, atoms in space without bonds", _is_xyz, _CONVERT),
    FileKind("MOL2", begins_with_text(r"(\s|#.*\n)*@<TRIPOS>"), _CONVERT),
    FileKind("PDB", begins_with_text(r"(HEADER|COMPND|CRYST1|HETATM|ATOM  ) .{20}"), _CONVERT),
)
