"""``train`` on fields: held-out images reconstructed from their conditions, beside baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.run_parts import SAMPLE_STREAM, RunParts

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import BoundEstimate, FieldReport, Reconstructions


class FieldParts(RunParts):
    """A run on images with maps, fields or ids; samples are ``Reconstructions`` of the first
    images of the validation split, ``eval.draws`` of each.

    Writes ``samples.npz`` and ``samples.png``.
    """

    def make_report(self) -> FieldReport:
        from discrete_diffusion.evaluation import FieldReport

        return FieldReport(self.data)

    def draw(self, num: int) -> Reconstructions:
        from discrete_diffusion.evaluation import reconstruct_held_out
        from discrete_diffusion.sampling import rows_at_once

        device = next(self.algorithm.parameters()).device
        return reconstruct_held_out(
            self.algorithm,
            self.sampler,
            self.data,
            "val",
            num=num,
            draws=self.config.eval.draws,
            seed=self.config.seed + SAMPLE_STREAM,
            batch_size=rows_at_once(device),
            device=device,
            shard=self.shard,
        )

    def findings(self, bound: BoundEstimate, samples: Reconstructions) -> dict[str, Any]:
        return {**bound.as_dict(), **self.report.measure(samples)}

    def summary(self, metrics: dict[str, Any]) -> str:
        if "relative_l2" not in metrics:
            return f"metrics: nelbo_{self.module.bound} {metrics[f'nelbo_{self.module.bound}']:.2f}"
        others = [
            f"{name} {metrics[key]:.3f}"
            for name, key in (
                ("mean image", "mean_image_relative_l2"),
                ("ridge", "ridge_relative_l2"),
                ("shuffled maps", "relative_l2_shuffled"),
            )
            if key in metrics
        ]
        return (
            f"metrics: relative L2 {metrics['relative_l2']:.3f} ({', '.join(others)})  "
            f"[{metrics['num_images']} images, {metrics['draws_per_image']} draws each]"
        )
