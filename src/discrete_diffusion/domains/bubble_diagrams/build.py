"""From a ``data`` config to a ``DiagramDataset``: the embedded generator, or plans files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from discrete_diffusion.domains.bubble_diagrams.dataset import (
    DiagramDataset,
    split_by_diagram,
    without_held_out,
)
from discrete_diffusion.domains.bubble_diagrams.files.readers import read_report
from discrete_diffusion.domains.bubble_diagrams.tokens import EncodedDiagrams, encode
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)


def build_generated(config: DictConfig) -> DiagramDataset:
    """``data=bubble_diagrams``: plans of the procedural generator, cached."""
    from discrete_diffusion.domains.bubble_diagrams.procedural.generator import cached_plans
    from discrete_diffusion.domains.bubble_diagrams.procedural.programme import N_MAX

    if config.n_max < N_MAX:
        raise ValueError(
            f"data.n_max={config.n_max}: the embedded plans have up to {N_MAX} rooms; take "
            f"data.n_max={N_MAX} or more"
        )
    vocab = VocabConfig(n_max=config.n_max)
    plans = cached_plans(config.num_plans, config.plan_seed)
    diagrams = plans.encode() if vocab == RPLAN_VOCAB_CONFIG else encode(plans.to_diagrams(), vocab)
    splits = split_by_diagram(diagrams, vocab, fractions=config.split, seed=config.split_seed)
    return _dataset(splits, vocab, config)


def build_from_files(config: DictConfig) -> DiagramDataset:
    """``data=plans``: one file split here (``path``), or a file per split.

    With a file per split, diagrams held out for validation or test are removed from training and
    counted. Raises ``ValueError`` if neither or both ways are given.
    """
    vocab = VocabConfig(n_max=config.n_max)
    separate = {name: config.get(f"{name}_path") for name in ("train", "val", "test")}
    if (config.path is None) == (separate["train"] is None):
        raise ValueError(
            "data=plans needs data.path=FILE, or data.train_path=FILE with data.val_path=FILE"
        )
    if config.path is not None:
        if any(separate.values()):
            raise ValueError("give data.path or data.train_path and data.val_path, not both")
        diagrams = _read(config.path, config, vocab)
        splits = split_by_diagram(diagrams, vocab, fractions=config.split, seed=config.split_seed)
        return _dataset(splits, vocab, config)
    if separate["val"] is None:
        raise ValueError("data.train_path needs data.val_path=FILE beside it")
    splits = {
        name: encode([], vocab) if path is None else _read(path, config, vocab)
        for name, path in separate.items()
    }
    kept = without_held_out(splits["train"], [splits["val"], splits["test"]], vocab)
    if removed := len(splits["train"]) - len(kept):
        logger.warning("%d training diagrams are held out elsewhere and were left out", removed)
    return _dataset({**splits, "train": kept}, vocab, config)


def _dataset(
    splits: dict[str, EncodedDiagrams], vocab: VocabConfig, config: DictConfig
) -> DiagramDataset:
    return DiagramDataset(
        splits, vocab, node_order=config.node_order, symmetry=config.get("symmetry", "none")
    )


def _read(path: str, config: DictConfig, vocab: VocabConfig) -> EncodedDiagrams:
    report = read_report(
        path,
        skip_invalid=config.skip_invalid,
        n_max=config.n_max,
        threshold=config.threshold,
        unit=config.get("unit", "pixels"),
        codes=config.get("codes"),
    )
    logger.info("%s", report.summary())
    if not report.diagrams:
        raise ValueError(f"{path}: no plan can be read; `discrete-diffusion data check` says why")
    return encode(report.diagrams, vocab)
