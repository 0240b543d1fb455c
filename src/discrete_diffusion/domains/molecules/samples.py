"""Sampled molecules: writing, reading, plotting, and metrics, with those of training molecules
as a baseline."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains.molecules import metrics, molecule_files
from discrete_diffusion.domains.molecules import molecule as graphs
from discrete_diffusion.domains.molecules.build import MoleculeDataset
from discrete_diffusion.domains.molecules.distances import ENOUGH, has_chemnet
from discrete_diffusion.domains.molecules.domain import STRUCTURES
from discrete_diffusion.domains.molecules.metrics import MIN_RINGS, MoleculeSet, Verdict
from discrete_diffusion.domains.molecules.molecule import NOTHING, Molecule
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.measured_data import RealData
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.requests import EvaluateRequest
from discrete_diffusion.evaluation.sample_kind import SampleFile, SampleKind, SampleKindReport
from discrete_diffusion.evaluation.sample_scores import Metric, SampleScores, error_note
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import atomic_write, write_text
from discrete_diffusion.runtime.package import install_command

logger = logging.getLogger(__name__)

MAX_PLOTTED = 36
_COLUMNS, _SIZE = 6, (220, 190)

_CLOSE = 0.1
"""Distance at which two atoms overlap in a picture, where a bond has the length 1.5."""

_VALIDITY = {
    "valid": "DiGress protocol: rdkit sanitises the graph unchanged; its largest fragment counts",
    "valid_relaxed": "the same, N of four bonds and O of three charged (GDSS: without correction)",
    "valid_corrected": "GDSS protocol: with valency correction; almost any graph passes",
    "connected": "the graph is in one piece, valid or not",
    "valid_in_one_piece": "valid without leaving out a fragment",
    "unique": "different molecules among those valid by the relaxed rule (DiGress protocol)",
    "novel": "of the different ones, not among the training molecules",
}
_SHARES_OF = {"unique": ("valid_relaxed",), "novel": ("valid_relaxed", "unique")}

_DISTANCES = {
    "fcd": "Fréchet ChemNet Distance of the valid samples, uncorrected",
    "fcd_corrected": "the same of all samples, with valency correction (GDSS protocol)",
    "nspdk_mmd": "MMD under the NSPDK kernel of the valid samples, uncorrected",
    "nspdk_mmd_corrected": "the same of all samples, with valency correction (GDSS protocol)",
    "scaffold_similarity": f"cosine of the counts of Bemis-Murcko scaffolds of {MIN_RINGS} rings "
    "and more (MOSES protocol), 1 is best",
    **{
        f"wasserstein_{name}": f"1-Wasserstein distance of {meaning}"
        for name, meaning in metrics.PROPERTIES.items()
    },
}

METRICS = {
    **{
        name: Metric(
            "validity",
            meaning,
            share=True,
            of_each=name != "unique",
            of=_SHARES_OF.get(name, ()),
            digits=2,
            percent=True,
        )
        for name, meaning in _VALIDITY.items()
    },
    **{
        name: Metric(
            "distances from held-out molecules",
            meaning,
            digits=6 if name.startswith("nspdk") else 4,
            ratio=None if name == "scaffold_similarity" else 1,
        )
        for name, meaning in _DISTANCES.items()
    },
}
"""All metrics of molecules, in the order of the table."""

_REAL = 31
"""Key of the random generator that chooses training molecules."""


def plot_molecules(
    molecules: Sequence[Molecule], path: Path, legends: Sequence[str] | None = None
) -> None:
    """Write a grid of molecules as ``.png`` or ``.svg``, with ``legends`` below; molecules that
    rdkit refuses are plotted too, and called not valid.

    Where a system library that rdkit draws with is missing, as on servers, a warning says so and
    nothing is written.
    """
    from rdkit import rdBase

    # drawing needs system libraries
    try:
        from rdkit.Chem import Draw
        from rdkit.Chem.Draw import MolDrawOptions
    except ImportError as error:
        logger.warning("%s is left out: rdkit cannot draw here (%s)", path, error)
        return

    shown, captions = [], []
    # a picture for each molecule, with what is wrong below
    with rdBase.BlockLogs():
        for k, molecule in enumerate(molecules[:MAX_PLOTTED]):
            mol, note = _with_coordinates(molecule)
            shown.append(mol)
            captions.append(", ".join(filter(None, [legends[k] if legends else "", note])))
        options: Any = MolDrawOptions()
        options.prepareMolsBeforeDrawing = False  # it refuses molecules that are not valid
        svg = path.suffix.lower() == ".svg"
        picture = Draw.MolsToGridImage(
            shown,
            molsPerRow=min(_COLUMNS, max(1, len(shown))),
            subImgSize=_SIZE,
            legends=captions,
            useSVG=svg,
            drawOptions=options,
        )
    # text or image file
    if svg:
        write_text(path, picture)
        return
    with atomic_write(path) as unfinished:
        picture.save(unfinished)


def _with_coordinates(molecule: Molecule) -> tuple[Any, str]:
    """Return the rdkit molecule with coordinates, and a note on its validity."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    # as strict as possible
    mol, note = graphs.sanitised(molecule), ""
    if mol is None:
        mol, note = graphs.sanitised(graphs.with_charged_atoms(molecule)), "valid with charges"
    if mol is None:
        mol, note = graphs.to_rdkit(molecule), "not valid"
        mol.UpdatePropertyCache(strict=False)
        Chem.FastFindRings(mol)
    rdDepictor.Compute2DCoords(mol)
    if note == "not valid":
        # a bond between atoms that overlap cannot be drawn: put all on a circle
        places, num = mol.GetConformer().GetPositions(), mol.GetNumAtoms()
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        if (apart[np.triu_indices(num, k=1)] < _CLOSE).any():
            for k in range(num):
                angle, radius = 2 * math.pi * k / num, 0.25 * num
                place = (radius * math.cos(angle), radius * math.sin(angle), 0.0)
                mol.GetConformer().SetAtomPosition(k, place)
    return mol, note


@dataclass(frozen=True)
class MoleculeSamples(SampleKind[Molecule]):
    """Samples of molecules. ``vocab``: vocabulary of the model, None for samples of files."""

    vocab: VocabConfig = None  # type: ignore[assignment]

    heading = "Held-out molecules"
    files = (molecule_files.SMILES_FILE, molecule_files.GRAPH_FILE)
    headlines = (
        Headline("valid", share=True),
        Headline("valid_relaxed", share=True),
        Headline("unique", share=True, counted="num_valid_relaxed"),
        Headline("novel", share=True, counted="num_unique"),
    )
    structures = STRUCTURES
    seeds, num_evaluated = 1, 10_000  # as in the literature

    def decode(self, tokens: Tensor) -> list[Molecule]:
        return graphs.decode_molecules(tokens, self.vocab) if len(tokens) else []

    def lines(self, samples: Sequence[Molecule], **more: Sequence[Any]) -> str:
        return molecule_files.json_lines_of_molecules(samples, **more)

    def write(self, samples: Sequence[Molecule], folder: Path, **more: Sequence[Any]) -> str:
        refused = molecule_files.write_molecules(samples, folder, **more)
        if not refused:
            return ""
        smiles, all_graphs = self.files
        return (
            f"{counted(refused, 'graph')} of no valid molecule: no SMILES in {smiles}, atoms and "
            f"bonds in {all_graphs}"
        )

    def plot(
        self,
        samples: Sequence[Molecule],
        path: Path,
        given: Sequence[int] | None = None,
        inputs: Any = None,
    ) -> None:
        """Plot the first molecules that have atoms on a page."""
        legends = None if given is None else [f"line {line}" for line in given]
        if with_atoms := [each for each in samples if each != NOTHING]:
            plot_molecules(with_atoms[:MAX_PLOTTED], path, legends)

    def shares(self, samples: Sequence[Molecule]) -> dict[str, float]:
        return metrics.sample_shares(metrics.verdicts_of(samples), None)

    def read(self, path: str, request: EvaluateRequest) -> SampleFile[Molecule]:
        """Read samples from a file; lines without a molecule give ``NOTHING``, never valid."""
        return molecule_files.read_samples(path, skip_invalid=request.skip_invalid)

    def score(
        self,
        request: EvaluateRequest,
        sets: Sequence[Sequence[Molecule]],
        real: RealData[Molecule],
        unreadable: Sequence[int],
    ) -> SampleScores:
        known = None if real.training is None else frozenset(relaxed_smiles(real.training))
        reference = relaxed_smiles(real.reference)
        verdicts = [metrics.verdicts_of(each) for each in sets]
        return score_molecules(verdicts, reference, real.training, known)

    def remarks(self, sets: Sequence[Sequence[Molecule]], num_blank: int) -> list[str]:
        samples = [molecule for molecules in sets for molecule in molecules]
        of, notes = f"Of {len(samples):,} samples", []
        # failed samples, pieces and dummy atoms are counted
        if nothing := samples.count(NOTHING):
            blank = f" ({num_blank:,} blank lines)" if num_blank else ""
            notes.append(
                f"{of} {nothing:,} are not molecules at all{blank}: they count as not valid."
            )
        if pieces := sum(bool(each.atoms) and not metrics.is_connected(each) for each in samples):
            notes.append(f"{of} {pieces:,} are in pieces: their largest piece counts.")
        if dummies := sum(map(graphs.has_dummy, samples)):
            notes.append(
                f"{of} {dummies:,} have the atom *, which is not an element; rdkit takes it."
            )
        return notes


def score_molecules(
    sets: Sequence[Sequence[Verdict]],
    reference: Sequence[str],
    training: Sequence[Molecule] | None,
    known: frozenset[str] | None,
) -> SampleScores:
    """Compute every metric of every set, one per sampling seed, against the SMILES ``reference``.

    ``training``: training molecules; a random subset, as large as the first set, is scored as a
    baseline. ``known``: SMILES of the training molecules, for novelty. Raises ``ValueError``
    without samples.
    """
    if not sets or not all(sets):
        raise ValueError("no samples to measure: give at least one set, of at least one sample")
    # distances of valid samples
    held_out = MoleculeSet(reference)
    scores = [
        _measured_set(each, held_out, known) for each in progress.track(sets, "metrics", "sets")
    ]
    # training molecules, by the same code
    num = min(len(sets[0]), len(training or ()))
    of_real: dict[str, float] = {}
    if training and num:
        chosen = torch.randperm(len(training), generator=make_generator(0, _REAL))[:num]
        of_real = _measured_set(
            metrics.verdicts_of([training[row] for row in chosen.tolist()]), held_out, None
        )
    # metrics that all sets have
    names = [name for name in scores[0] if all(name in each for each in scores)]
    sizes = [len(verdicts) for verdicts in sets]
    facts = {f"{name}_training": value for name, value in of_real.items()}
    return SampleScores(
        METRICS,
        sizes,
        {name: [each[name] for each in scores] for name in names},
        of_real,
        facts={**facts, "num_training_measured": num},
        heads=("metric", "value", "training data", "ratio"),
        notes=_metric_notes(names, sizes, len(reference), num),
    )


def _measured_set(
    verdicts: Sequence[Verdict], reference: MoleculeSet, known: frozenset[str] | None
) -> dict[str, float]:
    valid, corrected = _smiles(verdicts, "valid"), _smiles(verdicts, "corrected")
    far = metrics.all_distances(MoleculeSet(valid), reference)
    if corrected == valid:
        same = {name: far[name] for name in ("fcd", "nspdk_mmd") if name in far}
        of_corrected = {f"{name}_corrected": value for name, value in same.items()}
    else:
        of_corrected = metrics.graph_distances(MoleculeSet(corrected), reference, "_corrected")
    return {**metrics.sample_shares(verdicts, known), **far, **of_corrected}


def relaxed_smiles(molecules: Sequence[Molecule]) -> list[str]:
    """SMILES of molecules that pass the relaxed rule of validity, as all molecules of files do."""
    return _smiles(metrics.verdicts_of(molecules), "relaxed")


def _smiles(verdicts: Sequence[Verdict], rule: str) -> list[str]:
    smiles = (getattr(verdict, rule) for verdict in verdicts)
    return [text for text in smiles if text is not None]


def _metric_notes(
    names: Sequence[str], sizes: Sequence[int], num_reference: int, num_real: int
) -> list[str]:
    """Notes on how to read the table of metrics of these ``names``."""
    num = " + ".join(f"{size:,}" for size in sizes)
    notes = [f"Samples: {num} against {num_reference:,} held-out molecules."]
    notes.append(error_note(len(sizes)))
    # how to read the numbers of training data
    if num_real:
        notes.append(
            f"Training data: {num_real:,} training molecules instead of the samples, by the same "
            "code; none of them is novel."
        )
    if num_real and num_real < min(sizes):
        notes.append("There are fewer of them than samples, which makes their distances larger.")
    # small sets bias distances
    has_fcd = any(name.startswith("fcd") for name in names)
    if min([*sizes, num_reference]) < ENOUGH and has_fcd:
        notes.append(
            f"FCD is biased upwards in small sets: with fewer than {ENOUGH:,} samples and "
            "held-out molecules compare it only with the training data in this table, not with "
            "published values."
        )
    # distances that are missing, and why
    if "scaffold_similarity" not in names:
        notes.append(f"No scaffold of {MIN_RINGS} rings in every set, so no similarity.")
    if not has_chemnet():
        notes.append(f"No FCD without {install_command('molecules')}.")
    elif "fcd" not in names and "nspdk_mmd" in names:
        notes.append("No FCD: it takes two valid samples, and two of the reference.")
    if "nspdk_mmd" not in names:
        notes.append("No distances of valid samples: a set has none that is valid.")
    return notes


class MoleculeReport(SampleKindReport):
    """Validity, uniqueness and novelty of sampled molecules."""

    headlines = MoleculeSamples.headlines
    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("valid, relaxed", "valid_relaxed", 1, up=True, share=True, of_samples=True),
        Column("in one piece", "connected", 1, up=True, share=True, of_samples=True),
        Column("unique", "unique", 1, up=True, share=True),
        Column("novel", "novel", 1, up=None, share=True),
    )
    axes = columns[:1]
    data: MoleculeDataset

    @cached_property
    def kind(self) -> MoleculeSamples:
        return MoleculeSamples(self.data.vocab)

    def measure(self, samples: Tensor) -> dict[str, float]:
        verdicts = metrics.verdicts_of(self.kind.decode(samples))
        return metrics.sample_shares(verdicts, self.data.training_smiles)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        """Results by name, with the denominators of the shares ``unique`` and ``novel``."""
        found = super().findings(bound, samples)
        num_valid = round(found.get("valid_relaxed", 0) * len(samples))
        num_unique = round(found.get("unique", 0) * num_valid)
        return {**found, "num_valid_relaxed": num_valid, "num_unique": num_unique}
