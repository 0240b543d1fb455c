"""Files that hold no plans in any format that is read: one sentence, whatever is inside."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from floor_plans import generate_plans, read_partials
from floor_plans.diagrams.files.foreign_files import foreign_format
from floor_plans.drawings.readers import ReadOptions, read_report

LINES = [json.dumps(plan.to_json()).encode() for plan in generate_plans(5, seed=1)]


class Trap:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def arrays(save, content) -> bytes:
    file = io.BytesIO()
    save(file, content)
    return file.getvalue()


def archive(*names: str) -> bytes:
    """A ZIP archive of empty files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in names:
            made.writestr(name, "")
    return file.getvalue()


FOREIGN = {
    "plans.npy": (arrays(np.save, np.array([Trap()] * 3353, dtype=object)), "arrays of NumPy"),
    "plans.bin": (pickle.dumps([Trap()]), "pickle"),
    "m.jsonl": (
        b"\n  made\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n",
        "SDF, a file of mol blocks",
    ),
    "c.json": (b"PAR1" + bytes(99), "Parquet"),
    "table.jsonl": (b"Source,Target\n1,2\n", "a table of edges"),
    "letters.txt": (pickle.dumps([Trap()], protocol=0), "pickle"),
    "weights.jsonl": (archive("a/data.pkl", "a/data/0"), "PyTorch"),
    "plans.zip": (archive("plans.jsonl"), "archive; unpack it first"),
    "plan.png": (b"\x89PNG\r\n\x1a\n" + bytes(99), "a picture"),
    "plan.dwg": (b"AC1027" + bytes(99), "a DWG drawing; save it as DXF"),
    "plan.dxf": (b"AutoCAD Binary DXF\r\n\x1a\x00", "a binary DXF drawing; save it as text"),
    "plan.pdf": (b"%PDF-1.7\n" + b"1 0 obj\n" * 99, "a PDF"),
    "plans.jsonl": (b"\n".join(LINES).decode().encode("utf-16"), "UTF-16; save it as UTF-8"),
    "plans.dat": (np.random.default_rng(0).bytes(9999), "not text"),
    "plans.txt": (b"room,x,y\n" * 3353, "none of its 3,353 lines is a JSON object"),
    "plans.csv": (b"room,x,y\n" * 3353, "CSV; write"),
    "plans.xlsx": (archive("[Content_Types].xml", "xl/workbook.xml"), "a spreadsheet"),
    "old.xls": (b"\xd0\xcf\x11\xe0" + bytes(99), "a spreadsheet"),
    "plan.svg": (b"<?xml version='1.0'?>\n<!-- a plan -->\n<svg viewBox='0 0 9 9'/>", "an SVG"),
    "plan.json": (b"\xef\xbb\xbf  <svg xmlns='x'><rect/></svg>", "an SVG"),
    "plan.xml": (
        b"<?xml version='1.0'?><house:plan><room/></house:plan>",
        "XML .its first tag is <plan>",
    ),
    "page.jsonl": (b"<!DOCTYPE html>\n<html><body/></html>", "an HTML page"),
    "graph.xml": (b"<graphml><graph/></graphml>", "GraphML under another name"),
    "site.kml": (b"<kml><Placemark/></kml>", "KML, in degrees"),
    "plans.docx": (archive("[Content_Types].xml"), "a document of an office program"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_one_sentence_says_what_it_is_and_what_is_read(tmp_path, name):
    content, what = FOREIGN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=what) as caught:
        read_report(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ")
    assert "\n" not in sentence
    for known in ("JSON lines", "GraphML", "DXF", "GeoJSON", "Dwellings", "data.mat"):
        assert known in sentence
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert [problem.sentence() for problem in report.problems] == [sentence]
    assert (report.num_records, report.diagrams) == (1, ())
    if "JSON object" not in what:
        with pytest.raises(ValueError, match=what):
            read_partials(path)


def test_text_is_not_foreign(tmp_path):
    control = json.dumps({"name": "\x00\x01é"}, ensure_ascii=False).encode()
    path = tmp_path / "plans.jsonl"
    for text in (b"", b"{", control * 99, b"\xef\xbb\xbf" + LINES[0], b"PKZIP notes", b"BZ"):
        path.write_bytes(text)
        assert foreign_format(path) is None


def test_a_wrong_line_among_plans_is_a_wrong_line(tmp_path):
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b"\n".join([b"room,x,y", *LINES, bytes(9)]))
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert [problem.record for problem in report.problems] == ["line 1", "line 7"]
    assert report.num_records == 7


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["plans.jsonl", "plans.json"])
def test_blank_lines_are_no_plans(tmp_path, name, end):
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + end.join([b"", LINES[0], b"", b" \t", *LINES[1:], b"", b""]))
    report = read_report(path)
    assert (report.num_records, report.problems) == (5, ())
    path.write_bytes(end.join([b"", LINES[0], b"", b"{", b""]))
    with pytest.raises(ValueError, match=r"line 4: not valid JSON"):  # counted, if not read
        read_report(path)
    path.write_bytes(end * 3)
    with pytest.raises(ValueError, match=r"empty; expected"):
        read_report(path)


@pytest.mark.parametrize("name", ["plans.jsonl", "plans.csv", "plans.json", "plans"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_is_read_whatever_its_name(tmp_path, name, indent):
    path = tmp_path / name
    plans = [json.loads(line) for line in LINES]
    expected = list(generate_plans(5, seed=1))
    path.write_text(json.dumps(plans, indent=indent))
    report = read_report(path)
    assert ([d.rooms for d in report.diagrams], report.unit) == (
        [p.rooms for p in expected],
        "plans",
    )
    with pytest.raises(ValueError, match=f"^{path}: one JSON text .* one JSON object per line"):
        read_partials(path)
    path.write_text(json.dumps(plans[0], indent=indent))
    assert read_report(path).diagrams[0].rooms == expected[0].rooms
    path.write_text(json.dumps([*plans, {"rooms": [99]}], indent=indent))
    with pytest.raises(ValueError, match=f"^{path}, plan 6, field 'relations': missing"):
        read_report(path)
    path.write_text(json.dumps(plans, indent=2)[:-9])  # no document after all
    with pytest.raises(ValueError, match=r"not valid JSON|is a JSON object; plans are read from"):
        read_report(path)


@pytest.mark.parametrize("name", ["plans.jsonl", "plans.json"])
def test_lines_that_end_in_cr_alone_are_said_so(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\r".join(LINES))
    for read in (read_report, read_partials):
        with pytest.raises(
            ValueError, match=r"its lines end in CR alone, .*; save the file with LF"
        ):
            read(path)
    path.write_bytes(b"\r\n".join(LINES))
    assert read_report(path).num_records == 5
    path.write_bytes(json.dumps(json.loads(LINES[0]), indent=1).replace("\n", "\r").encode())
    assert read_report(path).num_records == 1  # one object: CR is blank space in it


POLYGON = [{"x": 0, "y": 0}, {"x": 5, "y": 0}, {"x": 5, "y": 4}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {
                "oas_layout": "1.0.0",
                "rooms": [{"id": "a", "usage": "living", "boundary_polygon": {"points": POLYGON}}],
                "walls": [],
            },
            ("OAS-Layout", "data.unit=millimetres"),
        ),
        ({"rooms": [{"usage": "living", "boundary_polygon": {}}]}, ("OAS-Layout",)),
        ({"oas_program": "1.0.0", "rooms": [{"id": "a", "usage": "living"}]}, ("brief=FILE",)),
        (
            {"room_count": 1, "rooms": [{"room_type": "kitchen", "floor_polygon": POLYGON}]},
            ("DS2D", "spaces"),
        ),
        ({"room_type": [1, 2], "edges": [[0, 1]]}, ("House-GAN++", "boxes", "ed_rm")),
        ({"room_type": [1, 2]}, ("House-GAN++", "boxes")),
        ({"rooms": [{"name": "Kitchen", "width": 3}]}, ("objects", "list of room types")),
    ],
)
def test_a_json_object_of_another_format_is_named(tmp_path, data, words):
    for text in (json.dumps(data), json.dumps(data, indent=1), json.dumps([data])):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(ValueError) as caught:
            read_report(tmp_path / "plan.json")
        for word in ("plan.json", *words):
            assert word in str(caught.value)
        assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("key", ["oas_layout", "oas_program", "annotations", "shapes"])
def test_a_plan_of_ours_may_have_any_other_key(tmp_path, key):
    path = tmp_path / "plans.jsonl"
    data = {"rooms": ["Kitchen"], "relations": [], "images": [], "imagePath": "", key: None}
    path.write_text(json.dumps(data))
    (diagram,) = read_report(path).diagrams
    assert diagram.metadata[key] is None


def test_what_is_quoted_of_a_file_is_cut(tmp_path):
    """However long a row, a key or a name is."""
    long = "Kitchen" * 5_000
    lines = [
        {"rooms": [long], "relations": []},
        {"rooms": ["Kitchen"], "relations": [], "boxes": [[0] * 9_000]},
        {"rooms": ["Kitchen"], "relations": [[long, 1, 2]]},
        {"rooms": ["Kitchen", "Balcony"], "relations": [[0, 1, long]]},
        {"rooms": ["Kitchen"], "relations": [], "codes": long},
        {"room_type": [long], "edges": []},
        {"type": "FeatureCollection", "unit": long, "features": []},
        {"spaces": [{"room_type": long, "floor_polygon": POLYGON}]},
        {"spaces": [{"room_type": "kitchen", "floor_polygon": [long] * 99}]},
        {long: 1, long + "2": 3},
        [long],
    ]
    for line in lines:
        (tmp_path / "plans.jsonl").write_text(json.dumps(line))
        with pytest.raises(ValueError) as caught:
            read_report(tmp_path / "plans.jsonl")
        assert len(str(caught.value)) < len(str(tmp_path)) + 700
