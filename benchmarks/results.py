"""Make ``REPORT.md`` and the figures again from ``benchmarks/results``; measure nothing.

    python benchmarks/results.py [--check]

That is ``make results``. ``--check`` writes nothing and names the parts of the report whose text is
not what the files give; a picture only has to be there. How a script says what its tables are:
``record.py``.
"""

from __future__ import annotations

import argparse

from record import DOCS, REPORT, Record, records, report_text


def write(records: list[Record]) -> list[str]:
    """Write the report if it differs, and all figures; what was written."""
    written = []
    text = report_text(records)
    if not REPORT.exists() or REPORT.read_text() != text:
        REPORT.write_text(text)
        written.append(f"benchmarks/{REPORT.name}")
    for record in records:
        for file, draw in record.figures().items():
            draw(DOCS / "images" / file)
            written.append(f"docs/images/{file}")
    return written


def complaints(records: list[Record]) -> list[str]:
    """Where the report and the files of results do not agree, a line each."""
    said = []
    report = REPORT.read_text() if REPORT.exists() else ""
    for record in records:
        file, texts = f"benchmarks/results/{record.name}.json", record.sections()
        if not texts:
            said.append(f"{file} is not in the report: its script has no tables for it")
        names = [name for _, name in texts]
        said += [f"{file}: no table is called {each!r}" for each in {*record.tables} - {*names}]
        for (_, name), text in texts.items():
            if f"{record.shown(name, text)}\n" not in report:
                said.append(f"{REPORT.name} does not show {name!r} as {file} has it")
        pictures = [file for table in record.tables.values() for file in table.get("images", [])]
        for name in [*record.figures(), *pictures]:
            if not (DOCS / "images" / name).exists():
                said.append(f"docs/images/{name} is not there")
    if not said and report != report_text(records):
        said.append(f"{REPORT.name} has more than the files of results give")
    return [f"{line}: `make results`" for line in said]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    given = parser.parse_args()
    found = records()
    lines = [] if given.check else [f"written: {each}" for each in write(found)]
    said = complaints(found)
    print("\n".join([*lines, *said]) or "the report and the results agree")
    raise SystemExit(1 if said else 0)


if __name__ == "__main__":
    main()
