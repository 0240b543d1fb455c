"""Sets of sampled graphs, one per sampling seed, beside real graphs: values, intervals, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from discrete_diffusion.domains.graphs.metrics.distances import ratios, squared_mmds
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.graphs import (
    DISTANCES,
    MEANINGS,
    OF_SAMPLES,
    SHARES,
    default_kernel,
    graph_metrics,
    own_metrics,
)
from discrete_diffusion.domains.graphs.real_data import RealGraphs
from discrete_diffusion.evaluation.floors import Floors, metric_floors
from discrete_diffusion.evaluation.intervals import (
    Interval,
    confidence_interval,
    error_note,
    interval_entries,
    share_interval,
)
from discrete_diffusion.evaluation.sample_sets import shown_sizes
from discrete_diffusion.evaluation.table import TableRow, TableSection
from discrete_diffusion.runtime import progress

RATIOS = ("ratio", "ratio_rounded")

_KERNELS = {
    "tv": "Gaussian kernels of total variation, as for planar, tree and SBM graphs in the papers",
    "emd": "Gaussian kernels of the earth mover's distance (Euclidean of orbits), as for community "
    "and ego graphs in the papers",
}


@dataclass(frozen=True)
class SampledGraphs:
    """The samples of one seed or file: ``graphs``, and how many further samples are no graph."""

    graphs: GraphSet
    num_unreadable: int = 0

    def __len__(self) -> int:
        return len(self.graphs) + self.num_unreadable


@dataclass(frozen=True)
class SampleScores:
    """``sizes``: samples in each set; ``unreadable``: how many of them are no graph, and count in
    shares; ``num_reference``, ``num_training``: beside them.

    ``per_seed``: by metric, a value per set; ``intervals``: their mean and 95 % interval. ``real``:
    by metric, what the training graphs score, or without them the reference of itself and the
    floors. ``floors``: None if none were drawn.
    """

    sizes: list[int]
    unreadable: list[int]
    num_reference: int
    num_training: int | None
    kind: str | None
    kernel: str
    per_seed: dict[str, list[float]]
    intervals: dict[str, Interval]
    real: dict[str, float]
    floors: Floors | None

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: means by name, then what stands beside them."""
        out: dict[str, Any] = {
            **{name: interval.mean for name, interval in self.intervals.items()},
            "kind": self.kind,
            "kernel": self.kernel,
            "num_training": self.num_training,
            **interval_entries(self.intervals),
            "per_seed": self.per_seed,
            "real": self.real,
        }
        if self.floors is not None:
            out |= self.floors.as_dict()
        return out

    def sections(self) -> list[TableSection]:
        """Graphs by themselves; their distances; what real graphs in their place would have."""
        own = [name for name in self.intervals if name not in (*DISTANCES, *RATIOS)]
        far = [name for name in (*DISTANCES, *RATIOS) if name in self.intervals]
        found = [
            TableSection("the samples by themselves", tuple(map(self._row, own))),
            TableSection("distances from the reference (0 is best)", tuple(map(self._row, far))),
        ]
        if self.floors is not None:
            rows = [
                TableRow(name, f"{mean:.5f} ± {self.floors.sd[name]:.5f}", meaning=DISTANCES[name])
                for name, mean in self.floors.mean.items()
            ]
            title = "floors: real graphs in the place of the samples (± of one subset)"
            found.append(TableSection(title, tuple(rows)))
        return found

    def _row(self, name: str) -> TableRow:
        interval, real = self.intervals[name], self.real.get(name)
        digits = 5 if name in DISTANCES else 2 if name in RATIOS or interval.mean > 1 else 4
        ratio = f"{interval.mean / real:.2f}" if name in DISTANCES and real else ""
        shown = "" if real is None else f"{real:.{digits}f}"
        return TableRow(name, interval.text(digits), shown, ratio, MEANINGS[name])

    def notes(self) -> list[str]:
        """Notes on how to read the table."""
        notes = [
            f"Samples: {shown_sizes(self.sizes)} graphs against {self.num_reference:,}.",
            error_note(len(self.sizes)),
        ]
        if num := sum(self.unreadable):
            notes.append(
                f"{num:,} of {sum(self.sizes):,} samples are no graph that can be read: they count "
                "in the shares, and are in no other number."
            )
        if "mmd_degree" not in self.per_seed:
            notes.append("No distances: a set has no sample that can be read.")
        notes.append(f"Distances: squared MMD with {_KERNELS[self.kernel]}.")
        if self.num_training is not None:
            notes.append(
                f"Real data: what the {self.num_training:,} graphs trained on score. Ratio: mean "
                "of value / theirs over the five distances, without those where theirs rounds to 0 "
                "at four decimals."
            )
        if self.kind == "sbm":
            notes.append(
                "Valid is a substitute of the published test, which needs graph-tool: blocks are "
                "found here by the integrated likelihood of a block model, their sizes and "
                "densities are tested as published."
            )
        if self.floors is not None:
            notes.append(
                f"Floors: {self.floors.num_samples:,} real graphs against "
                f"{self.floors.num_reference:,} others, mean of {self.floors.draws} draws."
            )
        return notes


def score_samples(
    sample_sets: Sequence[SampledGraphs],
    real: RealGraphs,
    *,
    kind: str | None,
    kernel: str | None = None,
    floor_draws: int = 20,
    seed: int = 0,
) -> SampleScores:
    """Every metric of every set against the reference of ``real``; its training graphs give novelty
    and the ratio, the floors are sampled from those it knows. ``floor_draws=0`` computes none.

    Raises ``ValueError`` for an empty set or reference.
    """
    sizes, reference, training = [len(s) for s in sample_sets], real.reference, real.training
    if not sizes or not all([*sizes, len(reference)]):
        raise ValueError("no graphs to measure: give at least one sample and one reference graph")
    kernel = kernel or default_kernel(kind)
    floors = _floors(real, len(sample_sets[0].graphs), kernel, draws=floor_draws, seed=seed)
    of_real = dict(own_metrics(reference if training is None else training, kind=kind))
    of_real |= {} if floors is None else floors.mean
    if training is not None:
        of_real |= squared_mmds(training, reference, kernel)
    tracked = progress.track(sample_sets, "metrics", "sets")
    found = [_scores_of_set(each, real, of_real, kind, kernel) for each in tracked]
    if training is not None:
        of_real |= ratios(of_real, of_real)
    names = [name for name in found[0] if all(name in values for values in found)]
    per_seed = {name: [values[name] for values in found] for name in names}
    return SampleScores(
        sizes=sizes,
        unreadable=[each.num_unreadable for each in sample_sets],
        num_reference=len(reference),
        num_training=None if training is None else len(training),
        kind=kind,
        kernel=kernel,
        per_seed=per_seed,
        intervals={
            name: share_interval(values, sum(sizes))
            if name in OF_SAMPLES
            else confidence_interval(values, num=sum(sizes) if name in SHARES else None)
            for name, values in per_seed.items()
        },
        real=of_real,
        floors=floors,
    )


def _floors(real: RealGraphs, num: int, kernel: str, *, draws: int, seed: int) -> Floors | None:
    """Distances of ``num`` real graphs from as many others as the reference has; None without
    draws or graphs."""
    if not draws or not num or len(real.known) < 2:
        return None
    distances = partial(squared_mmds, kernel=kernel)
    sizes = {"num_samples": num, "num_reference": len(real.reference)}
    return metric_floors(real.known, distances, **sizes, draws=draws, seed=seed)


def _scores_of_set(
    samples: SampledGraphs,
    real: RealGraphs,
    of_real: Mapping[str, float],
    kind: str | None,
    kernel: str,
) -> dict[str, float]:
    """Metrics of one set; shares are of all samples, those that are no graph among them. A set
    without a graph has shares of 0 and nothing else. ``of_real``: what ratios are to."""
    training = real.training
    if not len(samples.graphs):
        own = own_metrics(GraphSet(real.reference[:1]), training=training, kind=kind)
        return {name: 0.0 for name in own if name in SHARES}
    values = graph_metrics(
        samples.graphs, reference=real.reference, training=training, kind=kind, kernel=kernel
    )
    values |= {} if training is None else ratios(values, of_real)
    share = len(samples.graphs) / len(samples)
    return {k: share * v if k in SHARES else v for k, v in values.items()}
