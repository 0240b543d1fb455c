"""Lines and texts of a DXF drawing by their layers: blocks are opened, attributes are texts."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.dxf import PLAIN_LAYERS
from floor_plans.drawings.dxf_rings import UNREADABLE

if TYPE_CHECKING:
    from ezdxf.document import Drawing as Document

_MOST_OF_BLOCKS, _DEEPEST = 50_000, 16
"""Lines and texts that all blocks may hold together, and blocks inside one another."""


def read_document(content: bytes) -> Document:
    """Read strictly: ``ezdxf.recover`` would take 5.9 for a damaged "5.9]625"."""
    import ezdxf
    from ezdxf.filemanagement import dxf_stream_info

    try:
        info = dxf_stream_info(io.StringIO(content.decode("latin-1")))
        text = content.decode(info.encoding, errors="surrogateescape")
        document = ezdxf.read(io.StringIO(text))
        document.modelspace()  # which a damaged one may lack
        return document
    except (ezdxf.DXFError, *UNREADABLE) as error:
        shown = " ".join(str(error)[:200].split()) or type(error).__name__
        raise DiagramError(
            "", f"not a DXF drawing that can be read ({shown}); save it again as DXF"
        ) from error


def entities_by_layer(document: Document) -> dict[str, list[Any]]:
    """Lines and texts of a drawing, by the plain name of their layer.

    A block counts as what it holds, where it is inserted; what it holds on layer 0 is on the layer
    of the block. Attributes of a block are texts at its insertion point. Blocks on DOORS are
    symbols, whose lines are no openings: they are left out.
    """
    layers: dict[str, list[Any]] = {}
    num_of_blocks = 0
    for layer, entity, depth in _opened(document.modelspace(), "0", 0):
        num_of_blocks += depth > 0
        is_block = entity.dxftype() == "INSERT"
        if num_of_blocks + (entity.mcount if is_block else 0) > _MOST_OF_BLOCKS:
            raise DiagramError(
                "",
                f"more than {_MOST_OF_BLOCKS:,} lines and texts in blocks; write the layers of its "
                "rooms to a file of their own",
            )
        if not is_block:
            layers.setdefault(layer, []).append(entity)
    return layers


def _opened(entities: Iterable[Any], above: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Each entity, blocks too, with its layer and with how many blocks it is in. ``above``: the
    layer of the innermost."""
    if depth > _DEEPEST:
        raise DiagramError("", f"more than {_DEEPEST} blocks inside one another; explode them")
    for entity in entities:
        if not entity.dxf.hasattr("layer"):
            continue
        layer = entity.dxf.layer.upper()
        layer = above if layer == "0" else PLAIN_LAYERS.get(layer, layer)
        yield layer, entity, depth
        if entity.dxftype() != "INSERT" or layer == "DOORS" or entity.block() is None:
            continue
        for insert in entity.multi_insert() if entity.mcount > 1 else (entity,):
            yield layer, insert, depth + 1  # counted, though it may hold nothing
            place = insert.ocs().to_wcs(insert.dxf.insert)
            for attribute in insert.attribs:
                attribute.dxf.insert = attribute.ocs().from_wcs(place)
            yield from _opened((*insert.attribs,), layer, depth)
            yield from _opened(_content(insert), layer, depth + 1)


def _content(insert: Any) -> Iterator[Any]:
    """Lines and texts of an inserted block; ``DiagramError`` for one that is damaged."""
    import ezdxf

    try:
        yield from insert.virtual_entities()
    except (ezdxf.DXFError, *UNREADABLE) as error:
        shown = " ".join(str(error)[:200].split()) or type(error).__name__
        raise DiagramError(
            "", f"its block {insert.dxf.name} cannot be read ({shown}); explode it"
        ) from error
