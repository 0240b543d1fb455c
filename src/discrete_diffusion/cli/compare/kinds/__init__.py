"""What a comparison measures and shows, by what its samples are: ids by themselves, images from
maps, summaries of dialogues. One class per kind; what runs cells and writes tables knows none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discrete_diffusion.cli.compare.kinds.dialogues import Dialogues
from discrete_diffusion.cli.compare.kinds.ids import Ids
from discrete_diffusion.cli.compare.kinds.images import Images
from discrete_diffusion.cli.compare.kinds.kind import Kind, Quality, has_one_backbone_each
from discrete_diffusion.states import DIALOGUES, IMAGES, data_kind

_KINDS: dict[str, Kind] = {IMAGES: Images(), DIALOGUES: Dialogues()}
"""By ``data_kind``; the samples of others are ids by themselves."""
_IDS = Ids()


def kind_of(data_config: Mapping[str, Any]) -> Kind:
    """The kind of the samples of a ``config.data``."""
    return _KINDS.get(data_kind(data_config), _IDS)


__all__ = ["Kind", "Quality", "has_one_backbone_each", "kind_of"]
