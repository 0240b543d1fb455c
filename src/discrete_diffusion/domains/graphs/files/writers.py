"""Graphs into files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.records import graph_record
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.runtime.atomic_files import write_text


def lines_of(graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> str:
    """JSON lines, as ``read_graphs`` reads them; ``more``: further keys, a list with a value for
    each graph."""
    records = [graph_record(graph, types) for graph in graphs]
    for key, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[key] = value
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def write_graphs(path: Path, graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> None:
    write_text(path, lines_of(graphs, types, **more))
