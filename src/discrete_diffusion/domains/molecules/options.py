"""Choices of a user that are known before a heavy library is imported: kinds of files of molecules,
structures of samples, and options of ``sample`` and ``evaluate``.

Another structure is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.molecule_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("no-rings")
    class NoRings(Narrowing): ...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import LazyEntry, Registry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option
from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, suffix_of

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

_CONVERT = "write it as SMILES or SDF, for example by Open Babel"
_ATOM = re.compile(r"\s*([A-Z][a-z]?|\d{1,3})(\s+-?\d+\.?\d*([eE][+-]?\d+)?){3}(\s|$)")


def _is_sdf(head: Head) -> bool:
    """True if the fourth line counts atoms and bonds, as in a mol block."""
    return len(head.lines) > 3 and re.search(r"\bV[23]000$", head.lines[3]) is not None


def _is_smiles_table(head: Head) -> bool:
    """True for the name of a table, or a column smiles; a list of SMILES and names, separated by
    tabs, may have such a header, too."""
    if suffix_of(head.path) in (".csv", ".tsv"):
        return not head.text.lstrip().startswith(("{", "[", "<"))
    names = [name.strip(' "').lower() for name in re.split(r"[,;\t]", head.lines[0])]
    return "smiles" in names and len(names) > 1 and "smiles\t" not in head.lines[0].lower()


def _is_xyz(head: Head) -> bool:
    """True if the first line counts the atoms that follow the second one."""
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

STRUCTURES: Registry[Callable[[VocabConfig], Narrowing]] = Registry(
    "structure",
    "discrete_diffusion.molecule_structures",
    {
        "valence": LazyEntry("discrete_diffusion.domains.molecules.valence:Valence"),
        "connected": LazyEntry("discrete_diffusion.domains.molecules.valence:ConnectedValence"),
    },
)
register_structure = STRUCTURES.register

_STRUCTURE = Option(
    "structure",
    "valence: no atom gets more bonds than its type takes; connected: and the molecule is one "
    "piece, because bonds and atoms are narrowed as they are sampled; samples get weights that "
    "undo the bias of this; null narrows nothing",
    registry=STRUCTURES,
)
SAMPLE_OPTIONS = (
    Option(
        "num_atoms",
        "heavy atoms of every molecule, or several numbers to sample as often as in the training "
        "data among them, num_atoms=[8,9]; null samples all that the training data has",
        least=1,
        listed=True,
    ),
    Option(
        "given",
        "a file of scaffolds to complete: SMILES with * where new atoms attach, or mol blocks "
        "(.mol, .sdf) with dummy atoms; see docs/graphs_and_molecules.md",
        is_file=True,
    ),
    commands.completions("of each scaffold; null is 4"),
    _STRUCTURE,
)
EVALUATE_OPTIONS = (
    commands.DATA,
    Option(
        "reference",
        "files: held-out molecules to compare with, as SMILES",
        is_file=True,
        of_files=True,
    ),
    Option(
        "training",
        "files: molecules trained on, for novelty and for what real ones score",
        is_file=True,
        of_files=True,
    ),
    Option("seeds", "sampling seeds seed, seed + 1, ...; null is 1", least=1),
    commands.TIME_BINS,
    commands.LIKELIHOOD,
    commands.ORDERS,
    Option(
        "charges",
        "files: of reference and training, kept: N+ is another type than N | ignored: it is N",
        default="kept",
        words=("kept", "ignored"),
        of_files=True,
        reading=True,
    ),
    Option(
        "skip_invalid",
        "files: true leaves out molecules that cannot be read, and counts them",
        default=False,
        of_files=True,
        reading=True,
    ),
    _STRUCTURE,
)
