"""Make the tables and figures of the docs again from ``benchmarks/results``; measure nothing.

    python benchmarks/results.py [--check]

That is ``make results``. What no file of results gives, and files that give nothing, are named.
``--check`` writes nothing and also names the sections whose text is not what their file gives; a
picture only has to be there. How a script says what its tables are: ``record.py``.
"""

from __future__ import annotations

import argparse
import re

from record import DOCS, RESULTS, Record, read_section, write_section

WITHOUT_TABLES = {"demo": "quoted by README.md and docs/results.md"}
"""Files of results that the docs do not show, and why."""


def records() -> list[Record]:
    return [Record.read(path.stem) for path in sorted(RESULTS.glob("*.json"))]


def write(records: list[Record]) -> list[str]:
    """Write the sections that differ and all figures; what was written."""
    written = []
    for record in records:
        for (page, section), text in record.sections().items():
            if read_section(page, section) not in (None, text):
                write_section(page, section, text)
                written.append(f"docs/{page}: {section}")
        for file, draw in record.figures().items():
            draw(DOCS / "images" / file)
            written.append(f"docs/images/{file}")
    return written


def complaints(records: list[Record]) -> list[str]:
    """Where pages and files of results do not agree, a line each."""
    said, given_by = [], dict[tuple[str, str], str]()
    for record in records:
        file, texts = f"benchmarks/results/{record.name}.json", record.sections()
        if not texts and record.name not in WITHOUT_TABLES:
            said.append(f"{file} is in no page: {record.command.split()[1]} has no sections for it")
        for (page, section), text in texts.items():
            found, place = read_section(page, section), f"docs/{page}, section {section!r}"
            if other := given_by.get((page, section)):
                said.append(f"{place} is given by {file} and by {other}")
            given_by[page, section] = file
            if found is None:
                said.append(f"{place} is not there, {file} gives it: write its marks into the page")
            elif found != text:
                said.append(f"{place} is not what {file} gives: `make results` writes that")
        missing = [name for name in record.figures() if not (DOCS / "images" / name).exists()]
        said += [f"docs/images/{name} is not there: `make results` draws it" for name in missing]
    for path in sorted(DOCS.glob("*.md")):
        for section in re.findall(r"<!-- (.+?): start -->", path.read_text()):
            if (path.name, section) not in given_by:
                said.append(f"docs/{path.name}, section {section!r} is given by no file of results")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    given = parser.parse_args()
    found = records()
    lines = [] if given.check else [f"written: {each}" for each in write(found)]
    said = complaints(found)
    print("\n".join([*lines, *said]) or "pages and results agree")
    raise SystemExit(1 if said else 0)


if __name__ == "__main__":
    main()
