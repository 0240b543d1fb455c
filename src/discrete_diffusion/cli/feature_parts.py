"""``train`` on features: held-out rows predicted and filled, beside baselines and the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.run_parts import SAMPLE_STREAM, RunParts

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import BoundEstimate, Filling, RowReport


class FeatureParts(RunParts):
    """A run on rows of features with ``MaskedFeatures``; samples are a ``Filling`` of the first
    windows of the validation split, of whose rows a share ``eval.mask_rate`` is hidden.

    Writes ``samples.npz`` and ``samples.png``.
    """

    def make_report(self) -> RowReport:
        from discrete_diffusion.evaluation import RowReport

        return RowReport(self.data, "val", self.config.eval.mask_rate, self.config.seed)

    def draw(self, num: int) -> Filling:
        from discrete_diffusion.evaluation import fill_held_out
        from discrete_diffusion.sampling import rows_at_once

        device = self.algorithm.scaling.scale.device
        return fill_held_out(
            self.algorithm,
            self.sampler,
            self.data,
            "val",
            num=num,
            mask_rate=self.config.eval.mask_rate,
            seed=self.config.seed + SAMPLE_STREAM,
            batch_size=rows_at_once(device),
            device=device,
            shard=self.shard,
        )

    def findings(self, bound: BoundEstimate, samples: Filling) -> dict[str, Any]:
        return {**bound.as_dict(), **self.report.measure(samples)}

    def summary(self, metrics: dict[str, Any]) -> str:
        if "per_motif_r" not in metrics:
            return f"metrics: nelbo_{self.module.bound} {metrics[f'nelbo_{self.module.bound}']:.2f}"
        parts = []
        for name, shown in (("per_motif_r", "r"), ("per_motif_r2", "R2")):
            known = [
                f"{whose} {metrics[key]:.3f}"
                for whose in ("neighbour mean", "oracle")
                if (key := f"{whose.replace(' ', '_')}_{name}") in metrics
            ]
            parts.append(f"per-motif {shown} {metrics[name]:.3f} ({', '.join(known)})")
        num, rate = metrics["num_masked_rows"], metrics["mask_rate"]
        return f"metrics: {', '.join(parts)}  [{num:,} rows hidden at rate {rate:g}]"
