"""Molecules: files of SMILES as graphs of atoms and bonds, and ``discrete-diffusion data
molecules``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.domains.commands import SubCommand
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.molecules.options import (
    EVALUATE_OPTIONS,
    MOLECULE_KINDS,
    SAMPLE_OPTIONS,
)
from discrete_diffusion.domains.registry import register_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import SampleScore
    from discrete_diffusion.domains.molecules import (
        build,
        completion,
        metrics,
        molecule,
        molecule_files,
        reading,
    )
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout import vocab_config
    from discrete_diffusion.layout.vocab_config import VocabConfig
else:
    build = Later("discrete_diffusion.domains.molecules.build")
    completion = Later("discrete_diffusion.domains.molecules.completion")
    metrics = Later("discrete_diffusion.domains.molecules.metrics")
    molecule = Later("discrete_diffusion.domains.molecules.molecule")
    molecule_files = Later("discrete_diffusion.domains.molecules.molecule_files")
    reading = Later("discrete_diffusion.domains.molecules.reading")
    vocab_config = Later("discrete_diffusion.layout.vocab_config")


def add_file_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="SMILES (a list or a table) or SDF")
    parser.add_argument("--column", help="of a table (default: smiles)")
    parser.add_argument("--charges", choices=("kept", "ignored"), default="kept")


def check_file(options: Namespace) -> None:
    """Read a file of SMILES and say what it holds: sizes, atoms, what cannot be read, and how many
    molecules come back the same from atoms and bonds."""
    source = reading.read_molecules(options.file, charges=options.charges, column=options.column)
    print(source.summary())
    if not len(source):
        return
    # sizes and atoms
    sizes = Counter(len(molecule.atoms) for molecule in source.molecules)
    print(f"atoms of a molecule: {min(sizes)} to {max(sizes)} (data.n_max={max(sizes)})")
    atoms = Counter(atom for molecule in source.molecules for atom in molecule.atoms)
    shown = ", ".join(f"{atom} {count:,}" for atom, count in atoms.most_common())
    print(f"atoms: {shown} (data.atoms=[{','.join(atom for atom, _ in atoms.most_common())}])")
    print(f"different molecules: {len(set(source.molecules)):,}")
    # molecules that atoms and bonds do not represent
    rows = molecule_files.read_rows(options.file, options.column)
    changed = reading.changed_rows(source, {row.line: row.text for row in rows})
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
        add_file_options,
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
    fixed_keys = ("atoms", "n_max", "charges", "node_order")
    graph_features = GRAPH_FEATURES
    group_titles = {"node": "atoms", "edge": "bonds"}
    streamed_file = "samples.jsonl"
    sample_files = ("samples.smi", "samples.jsonl")
    options = {"sample": SAMPLE_OPTIONS, "evaluate": EVALUATE_OPTIONS}
    commands = {"data": COMMANDS}
    quick = {"num_held_out": 500, "num_samples": 500, "seeds": 1, "bound_draws": 1, "time_bins": 5}

    complete = LazyEntry("discrete_diffusion.domains.molecules.build:complete_molecules")
    report = LazyEntry("discrete_diffusion.domains.molecules.samples:MoleculeReport")

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """Vocabularies and slots of the molecules."""
        for key in ("n_max", "atoms"):
            if data.get(key) is None:
                raise ValueError(
                    f"data.{key} is not set; complete_data(config) reads it off the training file"
                )
        return vocab_config.VocabConfig(
            n_max=data["n_max"], node_types=tuple(data["atoms"]), edge_types=molecule.BONDS
        )

    def build(self, data: DictConfig) -> Dataset:
        return build.build_molecules(data, self.vocabulary(data))

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        return molecule.encode(samples, self.vocabulary(data)).x0

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        return molecule.decode(tokens, self.vocabulary(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        return metrics.molecule_rewards()

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        fresh = request.given is None
        sample = completion.sample_molecules if fresh else completion.complete_file
        return sample(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return completion.evaluate_files(request)
        return completion.evaluate_model(request, trained, self.vocabulary(trained.data_config))
