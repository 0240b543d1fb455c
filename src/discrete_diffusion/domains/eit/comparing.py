"""Images from maps, as numbers or as ids: drawn from held-out maps, against the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.cell_measurement import (
    CellMeasurement,
    FigureAxis,
    forms_of,
    samples_beside,
)
from discrete_diffusion.evaluation.comparison import Column, Comparison, Measure

if TYPE_CHECKING:
    from discrete_diffusion.algorithms import Algorithm
    from discrete_diffusion.cli.compare.cells import Cell
    from discrete_diffusion.cli.compare.folder import CellFolder
    from discrete_diffusion.evaluation.comparison import Baseline
    from discrete_diffusion.evaluation.equal_terms import EqualTerms
    from discrete_diffusion.evaluation.trained_model import Model

_IMAGES = "images.png"


def _head(comparison: Comparison) -> str:
    draws = comparison.models[0].mean("draws_per_image")
    return f"relative L2 of {f'the mean of {draws:g} draws' if draws > 1 else 'one draw'}"


def _note(comparison: Comparison, split: str) -> str:
    model = comparison.reference("relative_l2")
    num = model.values["relative_l2"].shape[1]
    return (
        f"Images are drawn from the maps of the first {num:,} of the {split} split, "
        f"{model.mean('draws_per_image'):g} of each, and of those of another image "
        "with the same noise; relative L2 is the norm of the error by that of the image."
    )


class ImageCells(CellMeasurement):
    """Relative L2 of the mean of what is drawn from a map; of ids the bound as well."""

    measures = ("relative_l2", "bounds")
    measured = {"relative_l2": Measure("relative L2", _head, _note)}
    columns = (
        Column("relative L2 of one draw", "relative_l2_single", 3),
        Column("rise with maps of others", "condition_gap", 3, up=True),
        Column("spread by errors (1 is right)", "spread_ratio", 2, up=None),
        Column("pixels right", "pixel_accuracy", 1, up=True, share=True),
    )
    axes = (FigureAxis("relative_l2", "relative L2"),)

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        if algorithm.state == "tokens" or num_samples:
            return None
        return (
            f"eval.num_samples=0: images of {algorithm.name} are compared by drawing them; give at "
            "least 1, the number of held-out images"
        )

    def check_same(self, one: Any, other: Any) -> None:
        from discrete_diffusion.domains.eit.equal_images import check_same_images

        check_same_images(one, other)

    def draws(self, asked: int) -> int:
        return asked

    def measure(self, model: Model, data: Any, terms: EqualTerms, folder: Path) -> dict[str, Any]:
        from discrete_diffusion.data import TokenDataset
        from discrete_diffusion.domains.eit.equal_images import score_images_drawn
        from discrete_diffusion.evaluation.equal_terms import held_out_bounds

        found: dict[str, Any] = {"metrics": {}}
        if isinstance(data, TokenDataset):
            bounds = held_out_bounds(model.algorithm, data, terms, device=model.device)
            bounds.check()
            found |= bounds.as_dict()
        if terms.num_samples:
            images = score_images_drawn(
                model.algorithm,
                model.sampler,
                data,
                terms,
                device=model.device,
                folder=folder,
            )
            found |= {"relative_l2": images.relative_errors.tolist(), "metrics": images.metrics}
        return found

    def baselines(self, data: Any, num: int) -> tuple[Baseline, ...]:
        from discrete_diffusion.domains.eit.equal_images import score_baselines

        return score_baselines(data, num)

    def notes(self, cells: Sequence[Cell]) -> list[str]:
        return [f"The same images and maps for all: {forms_of(cells)}."]

    def show(
        self,
        comparison: Comparison,
        cells: Sequence[Cell],
        folders: Mapping[str, CellFolder],
        out: Path,
    ) -> list[str]:
        """The true images beside those of every model, trained with the first seed."""
        import numpy as np

        from discrete_diffusion.domains.eit.pictures import draw_side_by_side
        from discrete_diffusion.domains.eit.reconstructing import RECONSTRUCTIONS

        path, drawn = out / _IMAGES, {}
        if "relative_l2" not in comparison.measures:
            path.unlink(missing_ok=True)
            return []
        there = samples_beside(comparison, cells, folders, RECONSTRUCTIONS, path)
        for label, file in there.items():
            with np.load(file) as arrays:
                truth, drawn[label] = arrays["truth"][:, 0], arrays["mean"][:, 0]
        if not drawn:
            return []
        draws = int(comparison.models[0].mean("draws_per_image"))
        draw_side_by_side(truth, drawn, path, draws=draws)
        return [path.name]
