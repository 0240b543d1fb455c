"""Hides the packages that plug into the framework, for ``make test-core``.

Nothing of them can be imported, and none of their entry points is seen, in every process.
"""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.machinery import PathFinder
from typing import Any

HIDDEN = {"floor_plans", "continuous_states"}


class _Visible(PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, *others: Any, **named: Any) -> Any:
        if fullname.partition(".")[0] in HIDDEN:
            return None
        return super().find_spec(fullname, *others, **named)


sys.meta_path[sys.meta_path.index(PathFinder)] = _Visible
_all_entry_points = importlib.metadata.Distribution.entry_points


def _entry_points(self: importlib.metadata.Distribution) -> importlib.metadata.EntryPoints:
    found = _all_entry_points.fget(self)
    return importlib.metadata.EntryPoints(
        each for each in found if each.module.partition(".")[0] not in HIDDEN
    )


importlib.metadata.Distribution.entry_points = property(_entry_points)
