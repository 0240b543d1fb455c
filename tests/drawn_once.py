"""Pictures of commands: the tests of a file draw each kind once, and write later ones blank."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from matplotlib.figure import Figure

import discrete_diffusion

BLANK = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
"""A PNG of one white pixel."""

draw = Figure.savefig
_PACKAGE = str(Path(discrete_diffusion.__file__).parent)
_DRAWN: set[tuple[Path, tuple[str, ...]]] = set()


def drawn_once(tests: Path) -> Callable[..., None]:
    """A ``Figure.savefig`` for a file of tests. The kind of a picture is which functions of the
    package ask for it, four deep. Only PNG files are ever blank."""

    def savefig(figure: Figure, target: Any, **options: Any) -> None:
        kind = (tests, tuple(islice(_callers(), 4)))
        if kind in _DRAWN and isinstance(target, Path) and target.suffix == ".png":
            target.write_bytes(BLANK)
        else:
            draw(figure, target, **options)
            _DRAWN.add(kind)

    return savefig


def _callers() -> Iterator[str]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            yield code.co_qualname
        frame = frame.f_back
