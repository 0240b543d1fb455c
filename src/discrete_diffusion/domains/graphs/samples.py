"""Sampled graphs: read, written, drawn, and scored beside real ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.graphs.files.formats import to_graphml
from discrete_diffusion.domains.graphs.files.readers import ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.files.records import lines_of, write_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.graphs import (
    METRICS,
    default_kernel,
    graph_metrics,
    own_metrics,
    ratios,
    squared_mmds,
)
from discrete_diffusion.domains.graphs.partial import PartialGraph
from discrete_diffusion.domains.graphs.pictures import MAX_DRAWN, plot_graphs
from discrete_diffusion.domains.graphs.structures import STRUCTURES
from discrete_diffusion.evaluation.intervals import error_note
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.sample_kind import SampleFile, SampleKind
from discrete_diffusion.evaluation.sample_scores import (
    Floors,
    SampleScores,
    metric_floors,
    shown_sizes,
)
from discrete_diffusion.evaluation.table import TableRow, TableSection
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import atomic_folder, put_aside, write_text

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation.measured_data import RealData
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

SAMPLES = "samples.jsonl"

GRAPHML = "graphml"
"""The folder of samples as GraphML, a file each."""

FLOOR_DRAWS = 20
"""If ``floor_draws`` does not say."""

MAX_COLUMNS = 6
"""Completions of a line that the picture shows."""

_KERNELS = {
    "tv": "Gaussian kernels of total variation, as for planar, tree and SBM graphs in the papers",
    "emd": "Gaussian kernels of the earth mover's distance (Euclidean of orbits), as for community "
    "and ego graphs in the papers",
}


@dataclass(frozen=True)
class GraphSamples(SampleKind[TypedGraph]):
    """Graphs of ``types``; ``validity``: what makes one valid, a ``data.kind``. Without a ``vocab``
    graphs of files, of any size."""

    types: GraphTypes
    vocab: VocabConfig = None  # type: ignore[assignment]
    validity: str | None = None

    heading = "Reference"
    files = (SAMPLES,)
    headlines = tuple(Headline(name, share=True) for name in ("valid", "unique", "connected"))
    structures = STRUCTURES

    @classmethod
    def of(cls, data: Mapping[str, Any], vocab: VocabConfig) -> GraphSamples:
        """Those of a ``config.data``."""
        return cls(GraphTypes.of(data), vocab, data["kind"])

    def decode(self, tokens: Tensor) -> list[TypedGraph]:
        return decode_graphs(tokens, self.vocab) if len(tokens) else []

    def lines(self, samples: Sequence[TypedGraph], **more: Sequence[Any]) -> str:
        return lines_of(samples, self.types, **more)

    def write(self, samples: Sequence[TypedGraph], folder: Path, **more: Sequence[Any]) -> str:
        write_graphs(folder / SAMPLES, samples, self.types, **more)
        return ""

    def plot(
        self,
        samples: Sequence[TypedGraph],
        path: Path,
        given: Sequence[int] | None = None,
        inputs: Mapping[int, PartialGraph] | None = None,
    ) -> None:
        """A page of the first ones; of completions the first of the first lines, the same number of
        each, with what the ``inputs`` by line have."""
        if given is None or inputs is None:
            if samples:
                plot_graphs(samples[:MAX_DRAWN], path, self.types)
            return
        of_line: dict[int, list[TypedGraph]] = {}
        for line, graph in zip(given, samples, strict=True):
            of_line.setdefault(line, []).append(graph)
        columns = min(MAX_COLUMNS, *map(len, of_line.values()), len(samples))
        shown = [
            line for line in [*of_line][: max(1, MAX_DRAWN // columns)] for _ in range(columns)
        ]
        plot_graphs(
            [graph for line in dict.fromkeys(shown) for graph in of_line[line][:columns]],
            path,
            self.types,
            titles=[f"line {line}" for line in shown],
            given=[inputs[line].edges(len(self.types.edges) - 1) for line in shown],
            columns=columns,
        )

    def write_copies(self, samples: Sequence[TypedGraph], request: SampleRequest) -> None:
        """The folder ``GRAPHML``, if it is requested; an earlier one is put aside."""
        folder = request.out / GRAPHML
        say = partial(logger.info, "the earlier %s is now %s", folder)
        if request.graphml:
            with atomic_folder(folder, replaced=say) as unfinished:
                for k, graph in enumerate(samples):
                    write_text(unfinished / f"{k}.graphml", to_graphml(graph, self.types))
        elif folder.exists():  # only with overwrite=true
            say(put_aside(folder))

    def shares(self, samples: Sequence[TypedGraph]) -> dict[str, float]:
        return dict(own_metrics(GraphSet(samples), kind=self.validity))

    def read_graphs(self, path: str, request: EvaluateRequest, **options: Any) -> ReadGraphs:
        """Graphs of a file that is measured or compared with, counted in the log."""
        n_max = None if self.vocab is None else self.vocab.n_max
        options |= {"skip_invalid": request.skip_invalid, "n_max": n_max}
        found = read_graphs(path, self.types, **options)
        logger.info("%s", found.summary(path))
        return found

    def read(self, path: str, request: EvaluateRequest) -> SampleFile[TypedGraph]:
        found = self.read_graphs(path, request, samples=True)
        num = len(found.graphs) + len(found.problems)
        return SampleFile(found.graphs, num, len(found.problems))

    def score(
        self,
        request: EvaluateRequest,
        sets: Sequence[Sequence[TypedGraph]],
        real: RealData[TypedGraph],
        unreadable: Sequence[int],
    ) -> SampleScores:
        """Every metric of every set; the graphs trained on give novelty and the ratio, the floors
        are sampled from all real graphs. Raises ``ValueError`` for an empty set or reference."""
        kind = self.validity if request.kind is None else request.kind
        kernel = request.kernel or default_kernel(kind)
        draws = FLOOR_DRAWS if request.floor_draws is None else int(request.floor_draws)
        reference, own = GraphSet(real.reference), partial(own_metrics, kind=kind)
        training = None if real.training is None else GraphSet(real.training)
        sizes = [len(each) + num for each, num in zip(sets, unreadable, strict=True)]
        if not all([*sizes, len(reference)]):
            raise ValueError(
                "no graphs to measure: give at least one sample and one reference graph"
            )
        floors = None
        if draws and len(sets[0]) and len(real.known) >= 2:
            floors = metric_floors(
                GraphSet(real.known),
                partial(squared_mmds, kernel=kernel),
                num_samples=len(sets[0]),
                num_reference=len(reference),
                draws=draws,
                seed=request.seed,
            )
        of_real = dict(own(reference if training is None else training))
        of_real |= {} if floors is None else floors.mean
        if training is not None:
            of_real |= squared_mmds(training, reference, kernel)

        def scores_of_set(samples: Sequence[TypedGraph], size: int) -> dict[str, float]:
            """Shares are of all samples, those that are no graph among them; a set without a graph
            has shares of 0 and nothing else."""
            if not samples:
                return dict.fromkeys(_shares_of(own(reference[:1], training=training)), 0.0)
            drawn = GraphSet(samples)
            values = graph_metrics(drawn, reference, training=training, kind=kind, kernel=kernel)
            values |= {} if training is None else ratios(values, of_real)
            return values | {k: len(samples) / size * values[k] for k in _shares_of(values)}

        pairs = list(zip(sets, sizes, strict=True))
        found = [scores_of_set(*pair) for pair in progress.track(pairs, "metrics", "sets")]
        if training is not None:
            of_real |= ratios(of_real, of_real)
        per_seed = {
            name: [values[name] for values in found]
            for name in found[0]
            if all(name in values for values in found)
        }
        num_training = None if training is None else len(training)
        facts = {"kind": kind, "kernel": kernel, "num_training": num_training}
        return SampleScores(
            METRICS,
            sizes,
            per_seed,
            of_real,
            facts=facts,
            tables={"real": of_real, **({} if floors is None else floors.as_dict())},
            further=[] if floors is None else [_floor_section(floors)],
            notes=[
                f"Samples: {shown_sizes(sizes)} graphs against {len(reference):,}.",
                error_note(len(sizes)),
                *_notes(per_seed, sizes, sum(unreadable), kind, kernel, num_training),
                *([] if floors is None else [_floor_note(floors)]),
            ],
        )


def _shares_of(values: Mapping[str, float]) -> list[str]:
    return [name for name in values if METRICS[name].share]


def _floor_section(floors: Floors) -> TableSection:
    rows = [
        TableRow(name, f"{mean:.5f} ± {floors.sd[name]:.5f}", meaning=METRICS[name].meaning)
        for name, mean in floors.mean.items()
    ]
    title = "floors: real graphs in the place of the samples (± of one subset)"
    return TableSection(title, tuple(rows))


def _floor_note(floors: Floors) -> str:
    return (
        f"Floors: {floors.num_samples:,} real graphs against {floors.num_reference:,} others, mean "
        f"of {floors.draws} draws."
    )


def _notes(
    per_seed: Mapping[str, Any],
    sizes: Sequence[int],
    num_unreadable: int,
    kind: str | None,
    kernel: str,
    num_training: int | None,
) -> list[str]:
    """Notes on how to read the metrics."""
    notes = []
    if num_unreadable:
        notes.append(
            f"{num_unreadable:,} of {sum(sizes):,} samples are no graph that can be read: they "
            "count in the shares, and are in no other number."
        )
    if "mmd_degree" not in per_seed:
        notes.append("No distances: a set has no sample that can be read.")
    notes.append(f"Distances: squared MMD with {_KERNELS[kernel]}.")
    if num_training is not None:
        notes.append(
            f"Real data: what the {num_training:,} graphs trained on score. Ratio: mean "
            "of value / theirs over the five distances, without those where theirs rounds to 0 "
            "at four decimals."
        )
    if kind == "sbm":
        notes.append(
            "Valid is a substitute of the published test, which needs graph-tool: blocks are "
            "found here by the integrated likelihood of a block model, their sizes and "
            "densities are tested as published."
        )
    return notes
