"""Names and numbers in the sentences that users read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """``unknown noise schedule 'cosin'; did you mean 'cosine'? Available: cosine, ...``"""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else "."
    return f"unknown {kind} '{name}'{guess} Available: {', '.join(names)}"


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise ``ValueError``, with the closest one, if a name is not one of those ``known``."""
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))


def counted(num: int, noun: str) -> str:
    """``1 sample``, ``1,000 samples``, ``2 summaries``."""
    if num != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{num:,} {noun}"
