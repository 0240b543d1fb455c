"""Sampled graphs: written, read, plotted, and measured against real graphs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from torch import Tensor

from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.graphs import graph_set, metrics, records
from discrete_diffusion.domains.graphs.build import GraphFileDataset
from discrete_diffusion.domains.graphs.domain import STRUCTURES
from discrete_diffusion.domains.graphs.graph_set import Floats, GraphSet, as_networkx
from discrete_diffusion.domains.graphs.readers import ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.records import GraphTypes, Pair
from discrete_diffusion.evaluation import sample_scores
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.measured_data import RealData
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.requests import EvaluateRequest
from discrete_diffusion.evaluation.sample_kind import SampleFile, SampleKind, SampleKindReport
from discrete_diffusion.evaluation.sample_scores import RealVsReal, SampleScores
from discrete_diffusion.evaluation.tables import TableRow, TableSection
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime import progress
from discrete_diffusion.viz.chart_style import TEXT, add_legend, new_figure, save_figure

logger = logging.getLogger(__name__)

SAMPLES = "samples.jsonl"

REFERENCE_REPEATS = 20
"""Default of ``reference_repeats``."""

MAX_PLOTTED, MAX_COLUMNS = 36, 6
"""Most graphs on a page, and most completions of a line on it."""

GIVEN = "#d1495b"
"""Colour of edges that were known before the graph was completed."""

_EDGE = "#9aa5b4"
_COLOURS = ("#44608a", "#ef9f4c", "#1f7a78", "#b06ab3", "#c9a227", "#7a7f87", "#d1495b", "#6fa8dc")
_STYLES: Any = ("solid", "dashed", "dotted", "dashdot")
"""Colours of types of nodes and line styles of types of edges, used in turn."""

_CELL = 2.1
"""Inches of a graph's square."""

_KERNELS = {
    "tv": "Gaussian kernels of total variation, as for planar, tree and SBM graphs in the papers",
    "emd": "Gaussian kernels of the earth mover's distance (Euclidean of orbits), as for community "
    "and ego graphs in the papers",
}


def plot_graphs(
    graphs: Sequence[TypedGraph],
    path: Path,
    types: GraphTypes,
    *,
    titles: Sequence[str] | None = None,
    given: Sequence[frozenset[Pair]] | None = None,
    columns: int | None = None,
) -> None:
    """Write a page of graphs as .png or .svg, a square each, in rows of ``columns``.

    Colours are types of nodes, dashes types of edges. ``given``: for each graph, edges (i, j) to
    highlight.
    """
    # as square as possible
    columns = columns or math.ceil(math.sqrt(len(graphs)))
    rows = math.ceil(len(graphs) / columns)
    # one legend for all squares, if there are several types
    nodes = types.nodes if len(types.nodes) > 1 else ()
    edges = types.edges[:-1] if len(types.edges) > 2 else ()
    handles = [
        Line2D([], [], marker="o", linestyle="", color=_COLOURS[k % len(_COLOURS)], label=name)
        for k, name in enumerate(nodes)
    ]
    handles += [
        Line2D([], [], color=_EDGE, linestyle=_STYLES[k % len(_STYLES)], label=name)
        for k, name in enumerate(edges)
    ]
    # a square for each graph
    figure = new_figure(columns * _CELL, rows * _CELL + 0.4 * bool(handles))
    cells = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for k, axes in enumerate(cells):
        axes.set_axis_off()
        axes.set_aspect("equal")
        if k < len(graphs):
            _plot_graph(axes, graphs[k], frozenset() if given is None else given[k])
            if titles is not None:
                axes.set_title(titles[k], fontsize=8, color=TEXT)
    if handles:
        add_legend(figure, handles=handles, loc="outside lower center", ncols=min(len(handles), 6))
    save_figure(figure, path)


def _plot_graph(axes: Axes, graph: TypedGraph, given: frozenset[Pair]) -> None:
    points = node_positions(graph)
    # edges by type, given ones highlighted
    for kind in sorted({kind for _, _, kind in graph.edges}):
        pairs = [(i, j) for i, j, each in graph.edges if each == kind]
        axes.add_collection(
            LineCollection(
                [(points[i], points[j]) for i, j in pairs],
                colors=[GIVEN if pair in given else _EDGE for pair in pairs],
                linewidths=[1.6 if pair in given else 0.8 for pair in pairs],
                linestyles=_STYLES[kind % len(_STYLES)],
                zorder=1,
            )
        )
    # nodes on top
    colours = [_COLOURS[kind % len(_COLOURS)] for kind in graph.nodes]
    size = 240 / (len(graph.nodes) + 8)
    axes.scatter(points[:, 0], points[:, 1], s=size, c=colours, linewidths=0, zorder=2)
    # a square around all nodes
    low, high = points.min(axis=0), points.max(axis=0)
    (x, y), reach = (low + high) / 2, 0.56 * max(float((high - low).max()), 1e-6)
    axes.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach))


def node_positions(graph: TypedGraph) -> Floats:
    """Positions Float[N, 2] of nodes, by the springs of Kamada and Kawai; planar graphs start
    without crossings."""
    import networkx

    # an embedding of planar graphs as the start
    linked = as_networkx(graph)
    is_planar, embedding = networkx.check_planarity(linked)
    start = None
    if is_planar and len(graph.nodes) > 2:
        place = networkx.combinatorial_embedding_to_pos(embedding)
        start = np.array([place[node] for node in linked], dtype=np.float64)
        start = len(graph.nodes) * (start - start.mean(axis=0)) / max(np.ptp(start), 1)
    # springs move nodes from there
    same = graph_set.graphs_library("igraph").Graph(n=len(graph.nodes), edges=list(linked.edges))
    layout = same.layout_kamada_kawai(seed=None if start is None else start.tolist())
    return np.array(layout.coords, dtype=np.float64).reshape(-1, 2)


@dataclass(frozen=True)
class GraphSamples(SampleKind[TypedGraph]):
    """Samples of graphs of these ``types``. ``vocab``: None for graphs of files, of any size.
    ``validity``: what makes a graph valid, a ``data.graph_family``."""

    types: GraphTypes
    vocab: VocabConfig = None  # type: ignore[assignment]
    validity: str | None = None

    heading = "Reference"
    files = (SAMPLES,)
    headlines = tuple(Headline(name, share=True) for name in ("valid", "unique", "connected"))
    structures = STRUCTURES

    @classmethod
    def of(cls, data: Mapping[str, Any], vocab: VocabConfig) -> GraphSamples:
        """Samples of a model with this ``config.data``."""
        return cls(GraphTypes.of(data), vocab, data["graph_family"])

    def decode(self, tokens: Tensor) -> list[TypedGraph]:
        return decode_graphs(tokens, self.vocab) if len(tokens) else []

    def lines(self, samples: Sequence[TypedGraph], **more: Sequence[Any]) -> str:
        return records.json_lines_of_graphs(samples, self.types, **more)

    def write(self, samples: Sequence[TypedGraph], folder: Path, **more: Sequence[Any]) -> str:
        records.write_graphs(folder / SAMPLES, samples, self.types, **more)
        return ""

    def plot(
        self,
        samples: Sequence[TypedGraph],
        path: Path,
        given: Sequence[int] | None = None,
        inputs: Mapping[int, Any] | None = None,
    ) -> None:
        """Plot the first graphs on a page.

        Of completions, as many are plotted for each of the first lines, with the edges of the
        line's ``PartialGraph`` in ``inputs``.
        """
        # fresh samples: one after the other
        if given is None or inputs is None:
            if samples:
                plot_graphs(samples[:MAX_PLOTTED], path, self.types)
            return
        # completions by line
        of_line: dict[int, list[TypedGraph]] = {}
        for line, graph in zip(given, samples, strict=True):
            of_line.setdefault(line, []).append(graph)
        # a row for each line, of equal length
        columns = min(MAX_COLUMNS, *map(len, of_line.values()), len(samples))
        lines = [*of_line][: max(1, MAX_PLOTTED // columns)]
        shown = [line for line in lines for _ in range(columns)]
        plot_graphs(
            [graph for line in lines for graph in of_line[line][:columns]],
            path,
            self.types,
            titles=[f"line {line}" for line in shown],
            given=[inputs[line].edges(len(self.types.edges) - 1) for line in shown],
            columns=columns,
        )

    def shares(self, samples: Sequence[TypedGraph]) -> dict[str, float]:
        return metrics.own_metrics(GraphSet(samples), kind=self.validity)

    def read_graphs(self, path: str, request: EvaluateRequest, **options: Any) -> ReadGraphs:
        """Read the graphs of a file to measure or compare with; the log says how many."""
        max_nodes = None if self.vocab is None else self.vocab.n_max
        options |= {"skip_invalid": request.skip_invalid, "max_nodes": max_nodes}
        source = read_graphs(path, self.types, **options)
        logger.info("%s", source.summary(path))
        return source

    def read(self, path: str, request: EvaluateRequest) -> SampleFile[TypedGraph]:
        source = self.read_graphs(path, request, samples=True)
        num = len(source.graphs) + len(source.problems)
        return SampleFile(source.graphs, num, len(source.problems))

    def score(
        self,
        request: EvaluateRequest,
        sets: Sequence[Sequence[TypedGraph]],
        real: RealData[TypedGraph],
        unreadable: Sequence[int],
    ) -> SampleScores:
        """Compute every metric of every set.

        Graphs trained on give novelty and the ratio; floors are sampled from all real graphs.
        Raises ``ValueError`` for an empty set or reference.
        """
        # how to measure, and with which sets
        kind = self.validity if request.kind is None else request.kind
        kernel = request.kernel or metrics.default_kernel(kind)
        draws = (
            REFERENCE_REPEATS
            if request.reference_repeats is None
            else int(request.reference_repeats)
        )
        reference, own = GraphSet(real.reference), partial(metrics.own_metrics, kind=kind)
        training = None if real.training is None else GraphSet(real.training)
        sizes = [len(each) + num for each, num in zip(sets, unreadable, strict=True)]
        if not all([*sizes, len(reference)]):
            raise ValueError(
                "no graphs to measure: give at least one sample and one reference graph"
            )
        # numbers of real graphs
        distances = partial(metrics.squared_mmds, kernel=kernel)
        floors = None
        if draws and len(sets[0]) and len(real.known) >= 2:
            floors = sample_scores.real_vs_real(
                GraphSet(real.known),
                distances,
                num_samples=len(sets[0]),
                num_reference=len(reference),
                draws=draws,
                seed=request.seed,
            )
        of_real = own(reference if training is None else training)
        of_real |= {} if floors is None else floors.mean
        if training is not None:
            of_real |= distances(training, reference)

        # numbers of the samples
        def scores_of_set(samples: Sequence[TypedGraph], size: int) -> dict[str, float]:
            """Scores of a set, with shares of all samples, readable or not; only shares, of 0, if
            it has no graph."""
            if not samples:
                return dict.fromkeys(
                    _share_names(own(reference.select([0]), training=training)), 0.0
                )
            graphs = GraphSet(samples)
            values = own(graphs, training=training) | distances(graphs, reference)
            values |= {} if training is None else metrics.mmd_ratios(values, of_real)
            return values | {k: len(samples) / size * values[k] for k in _share_names(values)}

        pairs = list(zip(sets, sizes, strict=True))
        scores = [scores_of_set(*pair) for pair in progress.track(pairs, "metrics", "sets")]
        if training is not None:
            of_real |= metrics.mmd_ratios(of_real, of_real)
        num_training = None if training is None else len(training)
        facts = {"kind": kind, "kernel": kernel, "num_training": num_training}
        notes = [f"Samples: {sample_scores.shown_sizes(sizes)} graphs against {len(reference):,}."]
        return _sample_scores(scores, sizes, of_real, floors, facts, notes, sum(unreadable))


def _sample_scores(
    scores: Sequence[Mapping[str, float]],
    sizes: Sequence[int],
    of_real: dict[str, float],
    floors: RealVsReal | None,
    facts: dict[str, Any],
    notes: list[str],
    num_unreadable: int,
) -> SampleScores:
    """Scores of all sets, with their tables and notes."""
    # metrics that all sets have
    per_seed = {
        name: [values[name] for values in scores]
        for name in scores[0]
        if all(name in values for values in scores)
    }
    notes += [
        sample_scores.error_note(len(sizes)),
        *_metric_notes(per_seed, sizes, num_unreadable, **facts),
    ]
    # floors have a section and a note
    tables, further = {"real": of_real}, []
    if floors is not None:
        tables |= floors.as_dict()
        rows = [
            TableRow(
                name, f"{mean:.5f} ({floors.sd[name]:.5f})", meaning=metrics.METRICS[name].meaning
            )
            for name, mean in floors.mean.items()
        ]
        title = "real graphs against real graphs (in brackets: standard deviation of a pair)"
        further = [TableSection(title, tuple(rows))]
        notes.append(
            f"Floors: {floors.num_samples:,} real graphs against {floors.num_reference:,} "
            f"others, mean of {floors.draws} draws."
        )
    return SampleScores(
        metrics.METRICS,
        [*sizes],
        per_seed,
        of_real,
        facts=facts,
        tables=tables,
        further=further,
        notes=notes,
    )


def _share_names(values: Mapping[str, float]) -> list[str]:
    return [name for name in values if metrics.METRICS[name].share]


def _metric_notes(
    per_seed: Mapping[str, Any],
    sizes: Sequence[int],
    num_unreadable: int,
    kind: str | None,
    kernel: str,
    num_training: int | None,
) -> list[str]:
    """Notes on how to read the metrics."""
    notes = []
    # samples without a graph
    if num_unreadable:
        notes.append(
            f"{num_unreadable:,} of {sum(sizes):,} samples are not graphs that can be read: they "
            "count in the shares, and are in no other number."
        )
    if "mmd_degree" not in per_seed:
        notes.append("No distances: a set has no sample that can be read.")
    # how distances are computed
    notes.append(f"Distances: squared MMD with {_KERNELS[kernel]}.")
    if num_training is not None:
        notes.append(
            f"Real data: what the {num_training:,} graphs trained on score. Ratio: mean "
            "of value / theirs over the five distances, without those where theirs rounds to 0 "
            "at four decimals."
        )
    # where the test differs from the published one
    if kind == "sbm":
        notes.append(
            "Valid is a substitute of the published test, which needs graph-tool: blocks are "
            "found here by the integrated likelihood of a block model, their sizes and "
            "densities are tested as published."
        )
    return notes


class GraphReport(SampleKindReport):
    """Metrics of sampled graphs against a split, and a picture."""

    headlines = (
        Headline("valid", share=True),
        Headline("valid_unique_novel", share=True),
        Headline("connected", share=True),
        Headline("ratio"),
    )
    columns = (
        Column("valid", "valid", 1, up=True, share=True, of_samples=True),
        Column("V.U.N.", "valid_unique_novel", 1, up=True, share=True, of_samples=True),
        Column("connected", "connected", 1, up=True, share=True, of_samples=True),
        Column("MMD ratio", "ratio", 2),
        Column("edges", "edges_per_graph", 1, up=None),
    )
    axes = (
        Column("V.U.N.", "valid_unique_novel", 1, up=True, share=True),
        Column("connected graphs", "connected", 1, up=True, share=True),
    )
    data: GraphFileDataset

    @cached_property
    def kind(self) -> GraphSamples:
        return GraphSamples(self.data.types, self.data.vocab, self.data.kind)

    @cached_property
    def _reference(self) -> GraphSet:
        return GraphSet(self.data.graphs(self.split))

    @cached_property
    def _training(self) -> GraphSet:
        return GraphSet(self.data.graphs("train"))

    @cached_property
    def _training_distances(self) -> dict[str, float]:
        kernel = metrics.default_kernel(self.data.kind)
        return metrics.squared_mmds(self._training, self._reference, kernel)

    def measure(self, samples: Tensor) -> dict[str, float]:
        if len(samples) == 0 or len(self._reference) == 0:
            return {}
        graphs = GraphSet(self.kind.decode(samples))
        kind = self.data.kind
        distances = metrics.squared_mmds(graphs, self._reference, metrics.default_kernel(kind))
        ratios = metrics.mmd_ratios(distances, self._training_distances)
        own = metrics.own_metrics(graphs, training=self._training, kind=kind)
        return {**own, **distances, **ratios}


class GraphCells(TokenCells):
    """The bound and metrics of fresh samples; novelty is left out for real data, which are
    known."""

    def __init__(self) -> None:
        super().__init__(GraphReport)

    def real_data(
        self, data: GraphFileDataset, num_samples: int, verdicts: int = 0
    ) -> dict[str, float]:
        """Scores of training graphs, without novelty."""
        scores = super().real_data(data, num_samples, verdicts)
        of_novelty = ("novel", "unique_novel", "valid_unique_novel")
        return {name: value for name, value in scores.items() if name not in of_novelty}
