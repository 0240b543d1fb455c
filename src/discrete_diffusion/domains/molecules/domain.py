"""Molecules: files of SMILES as graphs of atoms and bonds; their kinds of files, structures of
samples, options, and ``discrete-diffusion data molecules``.

Another structure is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.molecule_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("no-rings")
    class NoRings(Narrowing): ...
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry, Registry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option, SubCommand
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.registry import register_domain
from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, suffix_of

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

# imported when they are first used
_build: Any = Later("discrete_diffusion.domains.molecules.build")
_completion: Any = Later("discrete_diffusion.domains.molecules.completion")
_metrics: Any = Later("discrete_diffusion.domains.molecules.metrics")
_molecule: Any = Later("discrete_diffusion.domains.molecules.molecule")
_molecule_files: Any = Later("discrete_diffusion.domains.molecules.molecule_files")
_reading: Any = Later("discrete_diffusion.domains.molecules.reading")
_vocab_config: Any = Later("discrete_diffusion.layout.vocab_config")

_CONVERT = "write it as SMILES or SDF, for example by Open Babel"
_ATOM = re.compile(r"\s*([A-Z][a-z]?|\d{1,3})(\s+-?\d+\.?\d*([eE][+-]?\d+)?){3}(\s|$)")


def _is_sdf(head: Head) -> bool:
    """True if the fourth line counts atoms and bonds, as in a mol block."""
    return len(head.lines) > 3 and re.search(r"\bV[23]000$", head.lines[3]) is not None


def _is_smiles_table(head: Head) -> bool:
    """True if a file has the name of a table, or a column ``smiles``.

    A tab after ``smiles`` does not make a table: a list of SMILES and names may begin in that way.
    """
    if suffix_of(head.path) in (".csv", ".tsv"):
        return not head.text.lstrip().startswith(("{", "[", "<"))
    names = [name.strip(' "').lower() for name in re.split(r"[,;\t]", head.lines[0])]
    return "smiles" in names and len(names) > 1 and "smiles\t" not in head.lines[0].lower()


def _is_xyz(head: Head) -> bool:
    """True if the first line counts the atoms that follow the second line."""
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
        "data among them, num_atoms=[8,9]; null samples every size of the training data",
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
        "training_data",
        "files: molecules trained on, for novelty and for what real ones score",
        is_file=True,
        of_files=True,
    ),
    Option("num_seeds", "sampling seeds seed, seed + 1, ...; null is 1", least=1),
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


def _add_file_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="SMILES (a list or a table) or SDF")
    parser.add_argument("--column", help="of a table (default: smiles)")
    parser.add_argument("--charges", choices=("kept", "ignored"), default="kept")


def check_file(options: Namespace) -> None:
    """Read a file of SMILES and say what it holds: sizes, atoms, what cannot be read, and how many
    molecules come back the same from atoms and bonds."""
    source = _reading.read_molecules(options.file, charges=options.charges, column=options.column)
    print(source.summary())
    if not len(source):
        return
    # sizes and atoms
    sizes = Counter(len(molecule.atoms) for molecule in source.molecules)
    print(f"atoms of a molecule: {min(sizes)} to {max(sizes)} (data.max_nodes={max(sizes)})")
    atoms = Counter(atom for molecule in source.molecules for atom in molecule.atoms)
    shown = ", ".join(f"{atom} {count:,}" for atom, count in atoms.most_common())
    print(f"atoms: {shown} (data.atoms=[{','.join(atom for atom, _ in atoms.most_common())}])")
    print(f"different molecules: {len(set(source.molecules)):,}")
    # molecules that atoms and bonds do not represent
    rows = _molecule_files.read_rows(options.file, options.column)
    changed = _reading.changed_rows(source, {row.line: row.text for row in rows})
    same = len(source) - len(changed)
    print(
        f"the same canonical SMILES, stereochemistry aside, after atoms and bonds: "
        f"{same:,} of {len(source):,} ({100 * same / len(source):.2f} %)"
    )
    for line, before, after in changed[:5]:
        print(f"  line {line:,}: {before} became {after}")


COMMANDS = {
    "molecules": SubCommand(
        "FILE   what a file of SMILES holds, and what cannot be read",
        _add_file_options,
        check_file,
    )
}


@register_domain
class Molecules(Domain):
    """Molecules of a file of SMILES."""

    name, title = "molecules", "molecules"
    data_sets = {"molecules": "tokens", "qm9": "tokens", "zinc": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    file_kinds = MOLECULE_KINDS
    fixed_keys = ("atoms", "max_nodes", "charges", "node_order")
    graph_features = GRAPH_FEATURES
    group_titles = {"node": "atoms", "edge": "bonds"}
    streamed_file = "samples.jsonl"
    sample_files = ("samples.smi", "samples.jsonl")
    options = {"sample": SAMPLE_OPTIONS, "evaluate": EVALUATE_OPTIONS}
    commands = {"data": COMMANDS}
    quick = {
        "num_held_out": 500,
        "num_samples": 500,
        "num_seeds": 1,
        "noise_samples": 1,
        "time_bins": 5,
    }

    complete = LazyEntry("discrete_diffusion.domains.molecules.build:complete_molecules")
    report = LazyEntry("discrete_diffusion.domains.molecules.samples:MoleculeReport")

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """Vocabulary of the molecules: atoms, bonds and slots."""
        for key in ("max_nodes", "atoms"):
            if data.get(key) is None:
                raise ValueError(
                    f"data.{key} is not set; complete_data(config) reads it off the training file"
                )
        return _vocab_config.VocabConfig(
            n_max=data["max_nodes"], node_types=tuple(data["atoms"]), edge_types=_molecule.BONDS
        )

    def build(self, data: DictConfig) -> Dataset:
        return _build.build_molecules(data, self.vocabulary(data))

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        return _molecule.encode_molecules(samples, self.vocabulary(data)).x0

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        return _molecule.decode_molecules(tokens, self.vocabulary(data))

    def rewards(self, data: Mapping[str, Any], file: str | None = None) -> Mapping[str, Any]:
        return _metrics.molecule_rewards()

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        fresh = request.given is None
        sample = _completion.sample_molecules if fresh else _completion.complete_file
        return sample(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return _completion.evaluate_files(request)
        return _completion.evaluate_model(request, trained, self.vocabulary(trained.data_config))
