"""Names and numbers in the sentences that users read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def unknown_name(kind: str, name: Any, known: Iterable[str]) -> str:
    """``unknown noise schedule 'cosin'; did you mean 'cosine'? Available: cosine, ...``

    What is no text, such as the number that YAML reads ``nan`` as, is called what it is."""
    names = sorted(known)
    available = f"Available: {', '.join(names)}"
    if not isinstance(name, str):
        got = _KINDS.get(type(name), "a list or keys")
        quoted = f"; write it in quotes of its own, '\"{name}\"'" if str(name) in names else ""
        shown = "null" if name is None else name
        return f"{kind} {shown}: expected a name, but {shown} is {got}{quoted}. {available}"
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else "."
    return f"unknown {kind} '{name}'{guess} {available}"


_KINDS = {int: "a number", float: "a number", bool: "true or false", type(None): "nothing"}


def check_name(kind: str, name: Any, known: Iterable[str]) -> None:
    """Raise ``ValueError``, with the closest one, if a name is not one of those ``known``."""
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))


def counted(num: int, noun: str) -> str:
    """``1 sample``, ``1,000 samples``, ``2 summaries``."""
    if num != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{num:,} {noun}"
