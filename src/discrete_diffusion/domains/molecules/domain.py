"""Molecules: files of SMILES as graphs of atoms and bonds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.domains.commands import (
    DATA,
    LIKELIHOOD,
    ORDERS,
    TIME_BINS,
    Option,
    completions,
)
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.molecules.commands import COMMANDS
from discrete_diffusion.domains.molecules.file_kinds import MOLECULE_KINDS
from discrete_diffusion.domains.molecules.structures import STRUCTURES
from discrete_diffusion.domains.registry import register_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import SampleScore
    from discrete_diffusion.domains.molecules import build, molecule, requests, rewards
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout import vocab_config
    from discrete_diffusion.layout.vocab_config import VocabConfig
else:
    build = Later("discrete_diffusion.domains.molecules.build")
    molecule = Later("discrete_diffusion.domains.molecules.molecule")
    rewards = Later("discrete_diffusion.domains.molecules.rewards")
    vocab_config = Later("discrete_diffusion.layout.vocab_config")
    requests = Later("discrete_diffusion.domains.molecules.requests")

_STRUCTURE = Option(
    "structure",
    "valence: no atom gets more bonds than its type takes; connected: and the molecule is one "
    "piece, for bonds and atoms are narrowed as they are drawn; samples get weights that undo what "
    "this tilts; null narrows nothing",
    registry=STRUCTURES,
)
_SAMPLE = (
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
        "(.mol, .sdf) with dummy atoms; see docs/molecules.md",
        is_file=True,
    ),
    completions("of each scaffold; null is 4"),
    _STRUCTURE,
)
_EVALUATE = (
    DATA,
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
    TIME_BINS,
    LIKELIHOOD,
    ORDERS,
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
    options = {"sample": _SAMPLE, "evaluate": _EVALUATE}
    commands = {"data": COMMANDS}
    quick = {"num_held_out": 500, "num_samples": 500, "seeds": 1, "bound_draws": 1, "time_bins": 5}

    complete = LazyEntry("discrete_diffusion.domains.molecules.build:complete_molecules")
    report = LazyEntry("discrete_diffusion.domains.molecules.report:MoleculeReport")

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """The vocabularies and slots of its molecules."""
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
        return rewards.molecule_rewards()

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        drawn_by = requests.sample_molecules if request.given is None else requests.complete_file
        return drawn_by(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return requests.evaluate_files(request)
        return requests.evaluate_model(request, trained, self.vocabulary(trained.data_config))
