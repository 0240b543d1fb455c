"""``train`` on dialogues: held-out ones summarised, beside baselines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.run_parts import BOUND_STREAM, SAMPLE_STREAM, RunParts

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import BoundEstimate, Summaries, SummaryReport

logger = logging.getLogger(__name__)


class SummaryParts(RunParts):
    """A run on dialogues with their summaries, through latent vectors or as ids; samples are
    ``Summaries`` of the first dialogues of the validation split.

    Writes ``samples.jsonl``; the first ones are logged.
    """

    def make_report(self) -> SummaryReport:
        from discrete_diffusion.evaluation import SummaryReport

        return SummaryReport(self.data)

    def draw(self, num: int) -> Summaries:
        from discrete_diffusion.evaluation import summarise_held_out
        from discrete_diffusion.sampling import rows_at_once

        device = next(self.algorithm.parameters()).device
        return summarise_held_out(
            self.algorithm,
            self.sampler,
            self.data,
            "val",
            num=num,
            seed=self.config.seed + SAMPLE_STREAM,
            batch_size=rows_at_once(device),
            device=device,
            shard=self.shard,
        )

    def model_facts(self) -> dict[str, Any]:
        """What the own dialogue tells, of the summaries that are drawn."""
        from discrete_diffusion.evaluation import measure_source_gap
        from discrete_diffusion.sampling import rows_at_once

        num = self.config.eval.num_samples
        has_others = len(self.data.pairs["val"][:num]) > 1 and bool(self.data.others("val"))
        if not has_others or self.module.bound != self.data.bound:
            return {}
        device = next(self.algorithm.parameters()).device
        return measure_source_gap(
            self.algorithm,
            self.data,
            "val",
            num=num,
            draws=self.config.eval.bound_draws,
            seed=self.config.seed + BOUND_STREAM,
            batch_size=rows_at_once(device),
            device=device,
            shard=self.shard,
        ).as_dict()

    def findings(self, bound: BoundEstimate, samples: Summaries) -> dict[str, Any]:
        from discrete_diffusion.evaluation import example_summaries

        if len(samples):
            logger.info("%s", example_summaries(samples))
        return {**bound.as_dict(), **self.report.measure(samples)}

    def summary(self, metrics: dict[str, Any]) -> str:
        bound = f"nelbo_{self.module.bound}"
        parts = [f"{bound} {metrics[bound]:.2f} ± {metrics['nelbo_standard_error']:.2f} nats"]
        if (gap := metrics.get("nelbo_source_gap")) is not None:
            parts.append(f"{gap:+.2f} beside another dialogue")
        if "rouge_l" in metrics:
            others = [
                f"{name} {metrics[key]:.3f}"
                for name, key in (
                    ("another summary", "another_rouge_l"),
                    ("another dialogue", "shuffled_rouge_l"),
                )
                if key in metrics
            ]
            parts.append(f"ROUGE-L {metrics['rouge_l']:.3f} ({', '.join(others)})")
        parts += [
            f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
            for name in ("exact_match", "slot_accuracy")
            if name in metrics
        ]
        return f"metrics: {', '.join(parts)}  [{metrics.get('num_summaries', 0)} summaries]"
