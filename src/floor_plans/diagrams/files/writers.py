"""Writing of plans: JSON lines, a JSON list, GraphML, and networkx's node-link JSON.

A file appears complete or not at all; missing folders are created.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from discrete_diffusion.runtime import atomic_folder, atomic_write, progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import to_graphml, to_node_link

Drawable = TypeVar("Drawable")

Paths = str | os.PathLike[str]


def write_diagrams(path: Paths, diagrams: Iterable[BubbleDiagram], *, names: bool = True) -> None:
    """Write diagrams as JSON lines, room types and relations by name or else by code.

    ``read_diagrams`` reads the file back to equal diagrams. Raises ``ValueError`` naming the
    diagram whose metadata cannot be written as JSON.
    """
    _write(path, _lines(diagrams, names))


def lines_of(diagrams: Iterable[BubbleDiagram]) -> str:
    """JSON lines of diagrams, as ``write_diagrams`` writes them."""
    return "".join(_lines(diagrams, names=True))


def _lines(diagrams: Iterable[BubbleDiagram], names: bool) -> Iterator[str]:
    return (line + "\n" for line in _texts(diagram.to_json(names=names) for diagram in diagrams))


def write_json_list(path: Paths, diagrams: Iterable[BubbleDiagram], *, names: bool = True) -> None:
    """Write diagrams as one JSON list; otherwise like ``write_diagrams``."""
    _write(path, [_list([diagram.to_json(names=names) for diagram in diagrams])])


def write_networkx_json(path: Paths, diagrams: Iterable[BubbleDiagram]) -> None:
    """Write diagrams as a list of networkx's node-link objects, a single one without the list.

    ``from_networkx(networkx.node_link_graph(.., edges="edges"))`` is the inverse.
    """
    objects = [to_node_link(diagram) for diagram in diagrams]
    _write(path, _texts(objects) if len(objects) == 1 else [_list(objects)])


def write_graphml(path: Paths, diagram: BubbleDiagram) -> None:
    """Write one diagram as GraphML, which ``read_diagrams`` reads back."""
    _write(path, [to_graphml(diagram)])


def write_each(
    folder: Path,
    suffix: str,
    diagrams: Sequence[Drawable],
    write: Callable[[Path, Drawable], object],
    *,
    replaced: Callable[[Path], object] | None = None,
) -> None:
    """Write diagram k as ``folder/000k.suffix``, numbered from 1 with at least four digits.

    Either all files appear or none. ``replaced``: see ``atomic_folder``.

    Raises ``ValueError`` if the folder exists, is not empty and may not be replaced.
    """
    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if taken and replaced is None:
        raise ValueError(f"{folder} exists already; choose another name, or --overwrite")
    digits = max(4, len(str(len(diagrams))))
    with atomic_folder(folder, replaced=replaced) as unfinished:
        tracked = progress.track(diagrams, f"writing {folder.name}", "files")
        for number, diagram in enumerate(tracked, start=1):
            write(unfinished / f"{number:0{digits}}{suffix}", diagram)


def _list(objects: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(_texts(objects)) + "\n]\n"


def _texts(objects: Iterable[dict[str, Any]]) -> Iterable[str]:
    for k, data in enumerate(objects):
        try:
            yield json.dumps(data, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"diagram {k}: its metadata cannot be written as JSON ({error})"
            ) from error


def _write(path: Paths, texts: Iterable[str]) -> None:
    with (
        atomic_write(Path(path)) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(texts)
