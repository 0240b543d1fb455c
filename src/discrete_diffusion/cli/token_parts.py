"""``train`` on tokens: the bound beside blind ones, samples measured and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.run_parts import SAMPLE_STREAM, RunParts

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation import BoundEstimate, SampleReport


class TokenParts(RunParts):
    """A run on a ``TokenDataset`` with an ``Algorithm``; samples are tokens Int[num, L].

    Writes ``samples.jsonl`` and ``samples.png`` of bubble diagrams, ``samples.txt`` of text.
    """

    def make_report(self) -> SampleReport:
        from discrete_diffusion.evaluation import SampleReport

        return SampleReport(self.data)

    def draw(self, num: int) -> Tensor:
        from discrete_diffusion.categorical import make_generator
        from discrete_diffusion.data import draw_sizes
        from discrete_diffusion.sampling import draw_samples

        seed = self.config.seed
        sizes = draw_sizes(self.data.size_counts(), num, make_generator(seed, SAMPLE_STREAM, 0))
        device = self.algorithm.layout.support.device
        generator = make_generator(seed, SAMPLE_STREAM, 1, device=device)
        real = self.data.real_positions(sizes)
        return draw_samples(
            self.sampler, self.algorithm, real, generator=generator, shard=self.shard
        ).tokens

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        from discrete_diffusion.evaluation import blind_bounds, text_bits, text_facts

        return {
            **text_facts(self.data),
            **bound.as_dict(),
            **text_bits(self.data, "val", bound),
            **blind_bounds(self.data, "val"),
            "num_samples": len(samples),
            **self.report.measure(samples),
        }

    def summary(self, metrics: dict[str, Any]) -> str:
        bound = next((k for k in metrics if k.startswith("nelbo_unordered")), None) or next(
            k for k in metrics if k.startswith("nelbo_")
        )
        error = metrics.get(f"{bound}_standard_error", metrics["nelbo_standard_error"])
        parts = [
            f"{bound} {metrics[bound]:.2f} ± {error:.2f} nats "
            f"(blind {metrics['nelbo_blind']:.2f}, untrained {metrics['nelbo_uniform']:.2f})"
        ]
        if (bits := metrics.get("bits_per_character")) is not None:
            parts.append(f"{bits:.3f} bits per character")
        shares = ("valid", "exactly_one_living_room", "transitive", "words_in_training")
        parts += [
            f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
            for name in shares
            if name in metrics
        ]
        return f"metrics: {', '.join(parts)}  [{metrics['num_samples']} samples]"
