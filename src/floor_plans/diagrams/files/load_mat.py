"""``python load_mat.py FILE``: print the struct array ``data`` of a MATLAB file as lines of JSON.

It runs as a separate process, because ``scipy.io.loadmat`` crashes on some damaged files, and
imports nothing of this package. Each line holds the values of ``FIELDS`` of one record, in MATLAB's
order; missing fields and values that are neither numbers nor text are null. It exits with status 2
and a sentence on stderr if the file lacks the array, and with another status if it is unreadable.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np
from scipy.io import loadmat, whosmat

FIELDS = ("rType", "rEdge", "gtBoxNew", "name")

_LARGEST_RATIO = 1032  # largest compression ratio of zlib


def limit_resources(size: int) -> None:
    """Limit memory and processor time, if possible; 5,000 plans take 80 MB and half a second."""
    if sys.platform == "win32":
        return
    import resource

    memory, seconds = 2**30 + 100 * size, 60 + size // 100_000  # 1 GiB and more, 10 s per megabyte
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError):  # macOS limits no memory; a lower limit stays
            resource.setrlimit(kind, (most, hard))


def print_records(path: str, size: int) -> None:
    variables = whosmat(path)
    found = [(shape, kind) for name, shape, kind in variables if name == "data"]
    if len(found) != 1:
        names = [name for name, *_ in variables]
        times = f"'data' {len(found)} times" if found else f"{names[:8]}"
        refuse(f"expected one variable 'data'; it holds {times}")
    ((shape, kind),) = found
    if kind != "struct":
        refuse("'data' is not a struct array")
    if prod(shape) > _LARGEST_RATIO * size:
        raise ValueError(f"a file of {size:,} bytes cannot hold the records of its shape {shape}")
    data = loadmat(path, variable_names=["data"], chars_as_strings=False)["data"]
    if missing := [name for name in ("rType", "rEdge") if name not in data.dtype.names]:
        refuse(f"the struct array 'data' has no field {' nor '.join(missing)}")
    fields = [name if name in data.dtype.names else None for name in FIELDS]
    for record in data.ravel(order="F"):
        print(json.dumps([None if name is None else plain(record[name]) for name in fields]))


def plain(value: object) -> object:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufU":
        return None
    return "".join(value.ravel(order="F")) if value.dtype.kind == "U" else value.tolist()


def refuse(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    num_bytes = Path(sys.argv[1]).stat().st_size
    limit_resources(num_bytes)
    print_records(sys.argv[1], num_bytes)
