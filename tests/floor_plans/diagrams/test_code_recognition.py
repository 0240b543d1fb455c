"""Files of integer room codes: read by the one table that makes sense of them, or refused."""

from __future__ import annotations

import json

import pytest

from floor_plans import generate_plans, read_diagrams, read_partials, write_diagrams
from floor_plans.drawings.readers import ReadOptions, read_report

PLANS = list(generate_plans(567, seed=3))
HOUSE_GAN = dict(enumerate((1, 3, 2, 4, 9, 3, 3, 3, 3, 7, 8, 6, 10)))
HOUSE_GAN_PP = dict(enumerate((1, 3, 2, 4, 7, 3, 8, 3, 3, 5, 6, 10, 10)))
COARSE = dict(enumerate((0, 1, 2, 3, 0, 1, 1, 1, 1, 4, 0, 5, 5)))
RPLAN = {code: code for code in range(13)}


def records(codes, plans=PLANS, *, boxes=False):
    """Plans written in the codes of another data set."""
    for plan in plans:
        rooms = [codes[room] for room in plan.rooms]
        if boxes:
            yield {"rooms": rooms, "boxes": [list(box) for box in plan.boxes]}
        else:
            yield {"rooms": rooms, "relations": [list(triple) for triple in plan.relations]}


@pytest.fixture
def write(tmp_path):
    def write_lines(*data):
        path = tmp_path / "plans.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in data))
        return path

    return write_lines


@pytest.mark.parametrize("skip_invalid", [False, True])
@pytest.mark.parametrize("boxes", [False, True])
def test_house_gan_codes_are_refused_until_they_are_named(write, boxes, skip_invalid):
    """Every line would pass as a plan of RPLAN, and every room but two as another one."""
    path = write(*records(HOUSE_GAN, boxes=boxes))
    with pytest.raises(ValueError, match="room codes fit several tables") as caught:
        read_report(path, ReadOptions(skip_invalid=skip_invalid))
    for word in (
        *(str(path), "data.room_codes=housegan", "room_codes=TABLE", "--room-codes", "4 Bathroom"),
        *("4 DiningRoom", "6 Storage (closet)", "6 StudyRoom"),
        "rplan reads 567 of 567 plans, 0 with a living room",
        "housegan reads 567 of 567 plans, 567 with a living room",
    ):
        assert word in str(caught.value)
    report = read_report(path, ReadOptions(room_codes="housegan", skip_invalid=skip_invalid))
    assert (len(report.diagrams), report.problems, report.codes) == (567, (), ("housegan",))
    assert "(room codes of housegan)" in report.summary()
    same = {0: 0, 2: 2, 3: 3, 4: 4, 9: 9, 10: 10, 11: 11, 12: 11}
    for plan, read in zip(PLANS, report.diagrams, strict=True):
        assert all(same.get(a, b) == b for a, b in zip(plan.rooms, read.rooms, strict=True))
    if boxes:  # which of the bedrooms is the largest can be told
        assert all((1 in d.rooms) == bool({1, 7} & {*d.rooms}) for d in report.diagrams)


def test_codes_of_ours_are_recognised_by_what_only_ours_has(write):
    report = read_report(write(*records(RPLAN)))
    assert report.codes == ("rplan",)
    assert [d.rooms for d in report.diagrams] == [plan.rooms for plan in PLANS]


def test_codes_that_all_tables_read_alike_need_no_name(write):
    plan = {"rooms": [0, 2, 3, 1], "relations": []}  # one bedroom is the largest bedroom
    assert read_diagrams(write(plan))[0].rooms == (0, 2, 3, 1)
    assert read_diagrams(write({"rooms": [2, 2], "relations": []}))[0].rooms == (2, 2)
    with pytest.raises(ValueError, match=r"rplan.*coarse"):
        read_diagrams(write(plan | {"rooms": [0, 2, 1, 1]}))


def test_doors_tell_the_codes_of_house_gan_pp(write):
    boxes = [[0, 0, 40, 40], [0, 44, 60, 90], [64, 44, 120, 90], [10, 41, 20, 43]]
    rooms = [1, 3, 3, 17]
    report = read_report(write(*[{"rooms": rooms, "boxes": boxes}] * 2))
    assert report.codes == ("houseganpp",)
    read = report.diagrams[0]
    assert read.room_names == ("LivingRoom", "MasterRoom", "SecondRoom")
    assert read.metadata == {"doors": [{"type": "interior-door", "box": [10, 41, 20, 43]}]}
    path = write(*records(HOUSE_GAN_PP))
    with pytest.raises(ValueError, match=r"data.room_codes=houseganpp"):
        read_report(path)
    assert read_diagrams(path, room_codes="houseganpp")[0].rooms[0] == PLANS[0].rooms[0]


@pytest.mark.slow
def test_coarse_codes_without_their_format_are_refused(write):
    path = write(*records(COARSE, boxes=True))
    with pytest.raises(ValueError, match=r"5 ChildRoom.*5 Storage"):
        read_report(path)
    assert read_report(path, ReadOptions(room_codes="coarse")).codes == ("coarse",)


def test_a_file_of_two_tables_is_refused(write):
    """Every code is one of RPLAN's, which would leave 100 plans without a living room."""
    two = [*records(HOUSE_GAN, PLANS[:100]), *records(RPLAN, PLANS[100:])]
    with pytest.raises(ValueError, match="rplan reads 567 of 567 plans, 467 with a living room"):
        read_report(write(*two))
    coarse = [*records(COARSE, PLANS[:100]), *records(RPLAN, PLANS[100:])]
    with pytest.raises(ValueError, match=r"rplan reads .* with a living room, \d+ with several m"):
        read_report(write(*coarse))


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        (HOUSE_GAN, "have no living room by rplan but one by housegan"),
        (COARSE, "have several master rooms by rplan but at most one by coarse"),
    ],
)
def test_a_few_plans_of_another_table_are_named(write, caplog, codes, reason):
    bedrooms = [plan for plan in PLANS if sum(room in (1, 5, 6, 7, 8) for room in plan.rooms) > 1]
    path = write(*records(RPLAN, PLANS[:100]), *records(codes, bedrooms[:10]))
    report = read_report(path)
    assert (report.codes, len(report.diagrams), report.num_doubtful) == (("rplan",), 110, 10)
    assert "110 diagrams from 110 lines; 10 with doubtful room codes" in report.counts()
    (logged,) = caplog.records
    assert logged.levelname == "WARNING"
    expected = f"{path}: 10 of 110 plans, the first at {path}, line 101, {reason}"
    assert logged.getMessage().startswith(expected)
    for remedy in ("a file of its own", '"codes": '):
        assert remedy in logged.getMessage()


def test_plans_of_one_table_are_silent(write, caplog):
    assert read_report(write(*records(RPLAN))).num_doubtful == 0
    assert (
        read_report(write(*records(HOUSE_GAN)), ReadOptions(room_codes="housegan")).num_doubtful
        == 0
    )
    partial = [{"rooms": [None, 1, 2]}] * 2  # the living room may be the unknown one
    assert len(read_partials(write(*[{"rooms": [0, 7, None]}] * 20, *partial))) == 22
    assert caplog.records == []


def test_what_is_said_is_not_recognised(write, tmp_path):
    """Names, a record's own word and a format with codes of its own say it for themselves."""
    named = [plan.to_json() for plan in PLANS[:5]]
    report = read_report(write(*named), ReadOptions(room_codes="housegan"))
    assert (list(report.diagrams), report.codes) == (PLANS[:5], ())
    assert "room codes" not in report.summary()
    some = named[0] | {"rooms": ["LivingRoom", *PLANS[0].rooms[1:]]}
    assert read_report(write(some)).diagrams[0] == PLANS[0]
    path = tmp_path / "codes.jsonl"
    bedrooms = [plan.relabelled(range(plan.num_rooms)) for plan in PLANS[:5]]
    write_diagrams(path, bedrooms, names=False)
    assert read_diagrams(path, room_codes="housegan") == PLANS[:5]
    house_gan_pp = {"room_type": [1, 3], "boxes": [[0, 0, 40, 40], [44, 0, 90, 40]], "ed_rm": []}
    rendered = {"room_type": [0, 4], "boxes": house_gan_pp["boxes"], "rel": []}
    report = read_report(
        write(house_gan_pp, rendered, *records(HOUSE_GAN, PLANS[:9])),
        ReadOptions(room_codes="housegan"),
    )
    assert report.codes == ("coarse", "housegan", "houseganpp")
    assert [d.room_names for d in report.diagrams[:2]] == [
        ("LivingRoom", "MasterRoom"),
        ("LivingRoom", "Balcony"),
    ]
    assert read_report(write(rendered)).codes == ("coarse",)  # which ours could be, too
    with pytest.raises(ValueError, match="field 'codes': rplan, but a plan with 'rel' has"):
        read_report(write(rendered | {"codes": "rplan"}))


def test_names_elsewhere_in_the_file_speak_for_our_codes(write):
    named = [plan.to_json() for plan in PLANS[:5]]
    plain = {"rooms": [0, 4, 5], "relations": []}  # ours or coarse
    with pytest.raises(ValueError, match="fit several tables"):
        read_report(write(plain))
    assert read_report(write(*named, plain)).diagrams[-1].rooms == (0, 4, 5)
    with pytest.raises(ValueError, match="fit several tables"):
        read_report(write(*named, *records(HOUSE_GAN, PLANS[:5])))
    doors = {"rooms": [1, 17], "boxes": [[0, 0, 40, 40], [40, 0, 44, 9]]}  # which ours has not
    assert read_report(write(*named, doors)).codes == ("houseganpp",)


def test_lines_that_no_table_reads_do_not_decide(write):
    lines = [*records(RPLAN, PLANS[:3]), *[{"rooms": [1, 99], "relations": []}] * 9]
    lines += [{"rooms": [1, 9], "relations": [[0, 5, 1]]}] * 9
    report = read_report(write(*lines), ReadOptions(skip_invalid=True))
    assert (report.codes, len(report.diagrams), len(report.problems)) == (("rplan",), 3, 18)


def test_a_folder_is_decided_as_a_whole(tmp_path):
    for k, record in enumerate(records(HOUSE_GAN, PLANS[:9])):
        (tmp_path / f"{k}.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=f"^{tmp_path}: .* 9 of 9 plans"):
        read_report(tmp_path)
    assert len(read_diagrams(tmp_path, room_codes="housegan")) == 9


def test_each_file_of_a_folder_is_decided_by_itself(tmp_path, caplog):
    """A tenth of the folder is no tenth of its file."""

    def write_file(name, codes, plans):
        (tmp_path / name).write_text("".join(json.dumps(r) + "\n" for r in records(codes, plans)))

    write_file("a.jsonl", RPLAN, PLANS[:100])
    write_file("b.jsonl", HOUSE_GAN, PLANS[100:110])
    with pytest.raises(ValueError, match=f"^{tmp_path}/b.jsonl: its room codes fit several"):
        read_report(tmp_path)
    with_doors = [r | {"rooms": [*r["rooms"], 17]} for r in records(HOUSE_GAN_PP, boxes=True)]
    for each in with_doors:
        each["boxes"].append([0, 0, 9, 2])
    text = "".join(json.dumps(each) + "\n" for each in with_doors[:20])
    (tmp_path / "b.jsonl").write_text(text)
    report = read_report(tmp_path)
    assert report.codes == ("houseganpp", "rplan")
    assert "(room codes of houseganpp in b.jsonl, rplan in a.jsonl)" in report.summary()
    assert [0 in d.rooms for d in report.diagrams] == [True] * 120
    write_file("c.jsonl", HOUSE_GAN, PLANS[:9])  # too few for themselves, with d.jsonl
    write_file("d.jsonl", HOUSE_GAN, PLANS[:1])
    with pytest.raises(ValueError, match=f"^{tmp_path}: .* 10 of 10 plans"):
        read_report(tmp_path)
    assert caplog.records == []


@pytest.mark.slow
def test_real_plans_in_codes_are_silent(real_data, tmp_path, caplog):
    """The rendered plans by our codes, without the format that tells theirs."""
    plans = read_diagrams(real_data / "rplan_render_999" / "plans.jsonl")
    path = tmp_path / "plans.jsonl"
    write_diagrams(path, plans, names=False)
    path.write_text(
        path.read_text().replace('"codes":"rplan",', "").replace('"codes": "rplan", ', "")
    )
    assert '"codes"' not in path.read_text()
    report = read_report(path)
    assert (report.codes, report.diagrams, report.doubts) == (("rplan",), tuple(plans), ())
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


def test_graphml_with_integer_rooms(tmp_path):
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from((k, {"room": room}) for k, room in enumerate((1, 4, 6)))
    graph.add_edge(0, 1, relation="above")
    path = tmp_path / "plan.graphml"
    networkx.write_graphml(graph, path)
    with pytest.raises(ValueError, match="fit several tables"):
        read_report(path)
    (read,) = read_diagrams(path, room_codes="housegan")
    assert read.room_names == ("LivingRoom", "Bathroom", "Storage")


def test_partial_diagrams_are_decided_alike(write):
    lines = [{"rooms": [1, None, 6, 4]}, {"rooms": [None, 9]}]
    with pytest.raises(ValueError, match=r"data.room_codes=housegan .*room_codes=TABLE"):
        read_partials(write(*lines))
    read = read_partials(write(*lines), room_codes="housegan")
    assert [partial.rooms for partial in read] == [(0, None, 11, 3), (None, 4)]
    with pytest.raises(ValueError, match=r"rplan.*coarse"):  # a bedroom beside an unknown room
        read_partials(write({"rooms": [0, None, 1]}))
    assert read_partials(write({"rooms": [0, None, 7]}))[0].rooms == (0, None, 7)
    assert read_partials(write({"rooms": ["Kitchen", None]}), room_codes="housegan")[0].rooms == (
        2,
        None,
    )
    with pytest.raises(ValueError, match=r"room_codes=house: .*did you mean 'housegan'"):
        read_partials(write(*lines), room_codes="house")
