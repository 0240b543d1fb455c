"""A file of windows with rows to fill in, the fillings out."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from einops import rearrange, repeat
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.domain import Sampled
from discrete_diffusion.domains.regions import RegionDataset
from discrete_diffusion.domains.regions.filling import Filling
from discrete_diffusion.domains.regions.given_rows import GivenRows, check_kind, read_given_rows
from discrete_diffusion.domains.regions.region_maps import draw_region_maps
from discrete_diffusion.domains.regions.row_files import write_rows
from discrete_diffusion.domains.regions.row_scores import fit_baselines, score_filling
from discrete_diffusion.domains.regions.sampling import check_finite, shown_scores
from discrete_diffusion.evaluation.held_out import UnreadableDataError, checkpoint_data
from discrete_diffusion.naming import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel

logger = logging.getLogger(__name__)

COMPLETIONS = 4
"""Of each window, if they differ."""

_GIVEN_STREAM = 73
"""Keeps these fillings apart from those of held-out windows with the same seed."""


@dataclass(frozen=True)
class FilledWindows:
    """``predicted``: Float32[W, N, M], the expected rows. ``filled``: Float32[C, W, N, M], C
    fillings of each window, with the network calls ``nfe`` Int[C, W]. Observed rows are as given.
    """

    predicted: Tensor
    filled: Tensor
    nfe: Tensor


def fill_given(config: DictConfig, trained: TrainedModel) -> Sampled:
    """Fill every window of ``given`` ``completions`` times.

    ``samples.npz``: ``filled`` Float32[C, W, N, M], ``predicted`` Float32[W, N, M] by one network
    call, ``masked`` Bool[W, N], ``feature_names``, and ``truth`` Float32[W, N, M] if the file has
    it; then the fillings are scored too, against what the checkpoint's training split says.
    """
    given = _read(str(config.given), trained)
    completions = _completions(config, trained)
    with trained.sharing() as shard:
        start = time.perf_counter()
        done = _fill(given, trained.on(shard), trained.data_config.rows, completions, config.seed)
        seconds = time.perf_counter() - start
    check_finite(trained.path, done.predicted, done.filled)
    scores = _scores(given, done, trained, config.seed) if given.has_truth else {}
    names = tuple(trained.data_config.feature_names)
    folder = Path(str(config.out))
    arrays = {
        "filled": done.filled,
        "predicted": done.predicted,
        "masked": given.masked,
        "truth": given.rows if given.has_truth else None,
    }
    write_rows(folder, arrays, names)
    _draw(given, done, names, folder / config.picture)
    facts = {
        "sampling": trained.sampling,
        "given": str(config.given),
        "num_inputs": len(given),
        "completions": completions,
        "num_samples": len(given) * completions,
        "network_calls_per_sample": float(done.nfe.double().mean()),
        "seconds": seconds,
        **scores,
    }
    said = f": {shown_scores(scores)}" if scores else ""
    return Sampled(
        facts,
        f"{counted(len(given) * completions, 'filling')} of {counted(len(given), 'window')} in "
        f"{seconds:.1f} s{said}; {folder / config.picture}",
    )


def _read(path: str, trained: TrainedModel) -> GivenRows:
    """As the checkpoint can use them."""
    trained_on = trained.data_config
    check_kind(path, trained.path)
    return read_given_rows(
        path,
        feature_names=trained_on.feature_names,
        most_rows=trained_on.rows,
        scaling=trained.algorithm.scaling,
    )


def _completions(config: DictConfig, trained: TrainedModel) -> int:
    """How many: one by default if the sampler adds no noise."""
    objective = trained.algorithm.objective
    temperature = trained.sampler.temperature
    if temperature is None:
        temperature = 0.0 if objective == "mask" else 1.0
    if temperature > 0:
        return COMPLETIONS if config.completions is None else int(config.completions)
    if config.completions is None:
        return 1
    if config.completions > 1:
        logger.info(
            "no noise is added to the rows, so the completions of a window differ by the order in "
            "which its rows are filled at most; sampling.temperature=1 draws from the model"
        )
    return int(config.completions)


def _fill(
    given: GivenRows, model: Model, most_rows: int, completions: int, seed: int
) -> FilledWindows:
    """In batches that the processes share, each with a generator of its own."""
    algorithm, sampler, device = model.algorithm, model.sampler, model.device
    padding = most_rows - given.rows.shape[1]
    hidden = torch.where(given.masked.unsqueeze(-1), 0.0, given.rows)  # no one is shown the truth
    rows = torch.nn.functional.pad(hidden, (0, 0, 0, padding))
    masked = torch.nn.functional.pad(given.masked, (0, padding))
    real = torch.nn.functional.pad(torch.ones_like(given.masked), (0, padding))
    size = model.rows_at_once

    def parts(num: int) -> list[tuple[int, Tensor]]:
        return list(enumerate(torch.arange(num).split(size)))

    def on_device(windows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        of = windows % len(given)
        return rows[of].to(device), masked[of].to(device), real[of].to(device)

    def predict(numbered: tuple[int, Tensor]) -> Tensor:
        return algorithm.predict(*on_device(numbered[1])).float().cpu()

    def fill(numbered: tuple[int, Tensor]) -> tuple[Tensor, Tensor]:
        k, windows = numbered
        generator = make_generator(seed, _GIVEN_STREAM, k, device=device)
        hidden, masked, real = on_device(windows)
        clamp = hidden.masked_fill(masked.unsqueeze(-1), torch.nan)
        done = sampler.sample(algorithm, real, clamp=clamp, generator=generator, steps=model.steps)
        return done.x0.cpu(), done.nfe.cpu()

    with eval_mode(algorithm):
        predicted = torch.cat(model.shard.map(predict, parts(len(given))))
        filled = model.shard.map(fill, parts(completions * len(given)))
    num = given.rows.shape[1]
    return FilledWindows(
        predicted=predicted[:, :num],
        filled=rearrange(
            torch.cat([part for part, _ in filled])[:, :num],
            "(c w) n m -> c w n m",
            c=completions,
        ),
        nfe=rearrange(torch.cat([part for _, part in filled]), "(c w) -> c w", c=completions),
    )


def _scores(
    given: GivenRows, done: FilledWindows, trained: TrainedModel, seed: int
) -> dict[str, Any]:
    """Of the expected rows and of the fillings pooled, beside baselines fitted to the checkpoint's
    training data; nothing, and a line in the log, if that cannot be read."""
    try:
        data = checkpoint_data(trained)
    except UnreadableDataError as error:
        logger.info("the fillings are not scored: %s", error)
        return {}
    num = len(done.filled)
    filling = Filling(
        truth=repeat(given.rows, "w n m -> (c w) n m", c=num),
        real=torch.ones(num * len(given), given.rows.shape[1], dtype=torch.bool),
        masked=repeat(given.masked, "w n -> (c w) n", c=num),
        predicted=repeat(done.predicted, "w n m -> (c w) n m", c=num),
        filled=rearrange(done.filled, "c w n m -> (c w) n m"),
    )
    # of the user's windows no programmes are known, whatever the training data says of its own
    known = RegionDataset(data.splits, feature_names=data.feature_names, source=data.source)
    rate = float(given.masked.double().mean())
    baselines = fit_baselines(known, min(max(rate, 0.01), 0.99), seed)
    return score_filling(filling, known, "train", rate, seed, baselines=baselines).as_dict() | {
        "num_windows": len(given),
        "num_masked_rows": int(given.masked.sum()),
    }


def _draw(given: GivenRows, done: FilledWindows, names: tuple[str, ...], path: Path) -> None:
    """True, observed and filled; without the truth, predicted by one call in its place."""
    draw_region_maps(
        (given.rows if given.has_truth else done.predicted).numpy(),
        given.masked.numpy(),
        done.filled[0].numpy(),
        path,
        feature_names=names,
        truth_title="True" if given.has_truth else "Predicted by one call",
    )
