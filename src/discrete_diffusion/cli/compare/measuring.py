"""What cells are measured on, and a trained cell measured: bound, samples, what it ran on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

if TYPE_CHECKING:
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.data import Dataset
    from discrete_diffusion.evaluation.equal_terms import EqualTerms

_MEASURED = ("quantity", "ordering", "rows", "bounds", "relative_l2")
"""Keys of ``cell.json`` that are there whatever is measured, null without a value."""


def measure_cell(config: DictConfig, folder: CellFolder, terms: EqualTerms) -> dict[str, Any]:
    """What ``cell.json`` holds of a trained cell: its averaged weights of the last step, measured.

    Raises ``ValueError`` if weights, samples or the bound are those of a training gone wrong.
    """
    import torch

    from discrete_diffusion.checkpoints import read_checkpoint
    from discrete_diffusion.cli.compare.folder import config_digest, measured_with
    from discrete_diffusion.domains import build_data, domain_of
    from discrete_diffusion.evaluation.equal_terms import held_out_split
    from discrete_diffusion.evaluation.json_values import finite
    from discrete_diffusion.evaluation.trained_model import Model
    from discrete_diffusion.sampling import build_sampler

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checkpoint = read_checkpoint(folder.last, device=device)
    algorithm = checkpoint.algorithm
    if not all(weight.isfinite().all() for weight in algorithm.parameters()):
        raise ValueError("training has diverged: the weights hold NaN or infinity")
    data = build_data(checkpoint.config)
    sampler = build_sampler(config)
    found: dict[str, Any] = dict.fromkeys(_MEASURED)
    model = Model(algorithm, sampler, device)
    measurement = domain_of(config.data).cell_measurement()
    found |= measurement.measure(model, data, terms, folder.path)
    metrics = found.pop("metrics")
    return finite(
        {
            "digest": config_digest(config),
            "data_fingerprint": data.fingerprint(),
            "terms": terms.as_dict(),
            **measured_with(config),
            "steps": checkpoint.step,
            "split": held_out_split(data),
            **found,
            "metrics": {**metrics, "seconds_training": folder.seconds},
            "statistics": dict(algorithm.statistics()),
            "versions": _versions(),
            "hardware": hardware(),
        }
    )


def read_data(cells: Sequence[Cell]) -> dict[str, Dataset]:
    """The data sets of the cells by name, that of the first cell first.

    Raises ``ValueError`` if one holds out fewer than two samples, or two do not hold the same.
    """
    first, *others = found = {
        name: _read(next(cell.config for cell in cells if cell.data == name))
        for name in dict.fromkeys(cell.data for cell in cells)
    }
    for name in others:
        cells[0].measurement.check_same(found[first], found[name])
    return found


def _read(config: DictConfig) -> Dataset:
    from discrete_diffusion.domains import build_data, complete_data
    from discrete_diffusion.evaluation.equal_terms import held_out_split

    data = build_data(complete_data(config))
    if (num := len(data.splits[split := held_out_split(data)])) < 2:
        source = config.data.get("path") or f"data={config.data.name}"
        raise ValueError(
            f"{source}: the {split} split holds {num}, expected at least two samples to compare "
            f"models on; give it a larger share than data.split={config.data.get('split')}, or "
            "more data"
        )
    return data


def hardware() -> str:
    """Processor, cores, threads of torch and GPU."""
    import torch

    from discrete_diffusion.naming import counted

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    parts = [cpu, counted(cores, "core"), counted(threads, "thread")]
    return ", ".join(parts + ([torch.cuda.get_device_name()] if torch.cuda.is_available() else []))


def _versions() -> dict[str, str]:
    import torch

    from discrete_diffusion import __version__

    return {
        "discrete_diffusion": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
