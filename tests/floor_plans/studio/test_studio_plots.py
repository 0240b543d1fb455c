"""Plots, plans to choose from, and what survives, in a browser without a screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ezdxf
import pytest
from PIL import Image
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from discrete_diffusion import load
from discrete_diffusion.hub import boxed_model
from floor_plans import read_diagrams
from floor_plans.plans.floor_plan import FloorPlan
from studio_browser import Page, browser, needs_browser, served

pytestmark = needs_browser

CORNERS = [(0, 0), (11, 0), (11, 9), (0, 9)]


@pytest.fixture(scope="module")
def page(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Of the model that comes with the package."""
    profile = tmp_path_factory.mktemp("browser")
    with served(load(boxed_model())) as address, browser(profile, downloads) as driver:
        yield Page(driver, address)


@pytest.fixture(autouse=True)
def _wide(page: Page) -> None:
    page.resize(1280, 800)
    page.driver.get_log("browser")


def draw_plot(page: Page) -> None:
    page.find("tab-plot").click()
    for corner in (*CORNERS, CORNERS[0]):
        page.click_plot(*corner)


def lengths(page: Page) -> list[float]:
    return [float(each.get_attribute("value")) for each in page.all("#sides li > input")]


# -- the plot


def test_a_plot_is_drawn_dragged_typed_and_taken_back(page):
    page.open()
    page.find("tab-plot").click()
    view = page.find("plot-board").get_attribute("viewBox")
    page.click_plot(6, 5)
    assert page.find("plot-board").get_attribute("viewBox") == view  # the corner stays there
    page.undo()
    draw_plot(page)
    assert lengths(page) == [11, 9, 11, 9]
    assert page.find("plot-said").text.startswith("99.0 m²")
    page.drag_plot((11, 9), (12, 9))  # a corner
    assert lengths(page)[2] == 12
    page.find("undo").click()
    page.fill(page.all("#sides li > input")[0], 12)  # a length: the side across has it too
    assert lengths(page) == [12, 9, 12, 9]
    page.click_plot(6, 9)
    (entrance,) = page.all("#sides .under input")
    assert entrance.get_attribute("value") == "6"
    assert page.all("#plot-board .entrance")
    page.fill(entrance, 2)
    page.fill(page.find("north"), 90)
    assert page.all("#plot-board .compass")
    page.undo()
    assert not page.all("#plot-board .compass")
    page.pick("preset", "[[0,0],[12,0],[12,6],[7,6],[7,10],[0,10]]")
    assert lengths(page) == [12, 6, 5, 4, 7, 10]
    page.fill(page.all("#sides li > input")[0], 14)
    assert lengths(page) == [14, 6, 7, 4, 7, 10]
    page.has_no_complaints()


def test_a_plot_is_drawn_with_keys(page):
    page.open()
    page.find("tab-plot").click()
    page.pick("preset", "[[0,0],[11,0],[11,9],[0,9]]")
    corner = page.all("#plot-board .corner")[2]
    page.run("arguments[0].focus()", corner)
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    corner = page.driver.switch_to.active_element
    assert corner.get_attribute("aria-label") == "Corner 3 at 11.5, 10 m"
    page.keys(Keys.DELETE)
    assert len(page.all("#sides li")) == 3
    assert page.driver.switch_to.active_element.get_attribute("data-corner") == "2"
    page.has_no_complaints()


def test_sides_that_cross_are_named_and_not_sent(page):
    page.open()
    draw_plot(page)
    page.drag_plot((0, 0), (12.5, 4.5))
    assert "cross" in page.find("plot-said").text
    page.find("make-plans").click()
    page.wait(lambda: "cross" in page.said)
    assert "wrong" in page.find("said").get_attribute("class")


@pytest.mark.parametrize(
    ("polygon", "expected"),
    [
        ([[0, 0], [11, 0], [11, 9], [0, 9], [0, 0]], [11, 9, 11, 9]),
        # 0.0001 degrees are 11.13 m to the north, half of that to the east at 60 degrees
        (
            [[10, 60], [10.0002, 60], [10.0002, 60.0001], [10, 60.0001], [10, 60]],
            [11.13, 11.13, 11.13, 11.13],
        ),
    ],
)
def test_a_plot_is_read_from_geojson(page, tmp_path, polygon, expected):
    page.open()
    page.find("tab-plot").click()
    path = tmp_path / "plot.geojson"
    feature = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [polygon]}}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    page.find("plot-file").send_keys(str(path))
    page.wait(lambda: page.all("#sides li"))
    assert lengths(page) == pytest.approx(expected, abs=0.02)
    path.write_text("no JSON")
    page.find("plot-file").send_keys(str(path))
    page.wait(lambda: page.said == "The file is no GeoJSON.")
    assert lengths(page) == pytest.approx(expected, abs=0.02)


def test_a_plot_is_read_from_dxf(page, tmp_path):
    page.open()
    page.find("tab-plot").click()
    path, document = tmp_path / "plot.DXF", ezdxf.new(units=ezdxf.units.MM)
    corners = [(1000, 1000), (12_000, 1000), (12_000, 10_000), (1000, 10_000)]
    document.modelspace().add_lwpolyline(corners, close=True)
    document.saveas(path)
    page.find("plot-file").send_keys(str(path))
    page.wait(lambda: page.all("#sides li"))
    assert lengths(page) == pytest.approx([11, 9, 11, 9])
    path.write_text("no DXF")
    page.find("plot-file").send_keys(str(path))
    page.wait(lambda: "not a DXF drawing" in page.said)
    assert lengths(page) == pytest.approx([11, 9, 11, 9])


def test_a_picture_is_traced(page, tmp_path):
    page.open()
    page.find("tab-plot").click()
    path = tmp_path / "site.png"
    Image.new("RGB", (40, 30), "green").save(path)
    page.find("trace-file").send_keys(str(path))
    page.wait(lambda: page.all("#plot-board image"))
    page.fill(page.find("trace-width"), 24)
    (picture,) = page.all("#plot-board image")
    assert [float(picture.get_attribute(side)) for side in ("width", "height")] == [24, 18]
    for corner in (*CORNERS, CORNERS[0]):
        page.click_plot(*corner)
    assert lengths(page) == [11, 9, 11, 9]
    page.find("end-trace").click()
    assert not page.all("#plot-board image")
    path.write_text("no picture")
    page.find("trace-file").send_keys(str(path))
    page.wait(lambda: page.said == "site.png is no picture that this browser shows.")


def test_a_plan_is_realised_on_the_plot_and_is_stale_after_it_changes(page, downloads):
    page.open()
    page.find("tab-plot").click()
    page.pick("preset", "[[0,0],[11,0],[11,9],[0,9]]")
    page.find("tab-drawing").click()
    page.realise_two_rooms()
    assert page.find("plan").is_displayed(), page.said
    (plan,) = read_diagrams(page.save_plan(downloads, "dxf"))
    corners = FloorPlan.of(plan).outline.bounds
    assert (corners[2] - corners[0], corners[3] - corners[1]) == pytest.approx((11, 9), abs=0.01)
    page.find("tab-plot").click()
    page.fill(page.all("#sides li > input")[0], 10)
    assert not page.find("plan").is_displayed()
    assert "changed since" in page.find("stale").text
    assert not any(each.is_enabled() for each in page.all("#export button[data-of=plan]"))
    page.all("#variants .pick")[0].click()  # goes back to its plot
    assert lengths(page) == [11, 9, 11, 9]
    assert page.find("plan").is_displayed()
    page.find("undo").click()
    assert lengths(page) == [10, 9, 10, 9]
    page.has_no_complaints()


# -- what survives


def test_all_survives_a_reload_and_a_file(page, downloads, tmp_path):
    page.open()
    page.find("tab-plot").click()
    page.pick("preset", "[[0,0],[11,0],[11,9],[0,9]]")
    page.find("tab-drawing").click()
    page.realise_two_rooms()
    before = page.save_plan(downloads, "json").read_text()
    page.all("#variants .pill")[0].click()
    (downloads / "studio.json").unlink(missing_ok=True)
    page.find("save").click()
    page.wait((downloads / "studio.json").is_file)
    page.reload()
    assert page.all("#variants .pinned.chosen")
    assert len(page.all("#rooms li")) == 2
    assert page.save_plan(downloads, "json").read_text() == before
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")  # the next visit
    page.driver.get(page.address)
    page.wait(lambda: page.find("model").text)
    assert page.all("#variants .pinned.chosen")
    page.driver.close()
    page.driver.switch_to.window(first)
    page.find("undo").click()  # of the choice
    assert not page.find("plan").is_displayed()
    page.open()
    assert not page.find("plans").is_displayed()
    page.find("open-file").send_keys(str(downloads / "studio.json"))
    page.wait(lambda: page.said == "Opened studio.json.")
    assert page.save_plan(downloads, "json").read_text() == before
    data = json.loads((downloads / "studio.json").read_text())
    data["plans"][0]["plan"]["boxes"] = "no boxes"
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(data))
    page.find("open-file").send_keys(str(broken))
    page.wait(lambda: page.said == "broken.json is no saved file of the studio.")
    assert page.find("plan").is_displayed()
    page.has_no_complaints()


def test_a_browser_that_keeps_no_more_says_so(page):
    page.open()
    page.run("Storage.prototype.setItem = () => { throw new DOMException('', 'x'); }")
    page.add("LivingRoom")
    page.wait(lambda: "keeps no more" in page.said)


def test_a_link_holds_plot_and_brief_too(page):
    page.open()
    page.find("example").click()
    link = page.driver.current_url
    page.open("#" + link.partition("#")[2])
    page.find("tab-plot").click()
    assert lengths(page) == [11, 9, 11, 9]
    assert page.find("area").get_attribute("value") == "95"
    page.find("tab-brief").click()
    assert len(page.all("#counts li")) == 3


def has_job(page):
    """True if the browser keeps a search that a reload continues."""
    return 'job":"' in page.run("return JSON.stringify(sessionStorage)").replace("\\", "")


def test_a_search_is_cancelled_and_one_survives_a_reload(page):
    page.open()
    page.find("example").click()
    page.find("make-plans").click()
    page.find("cancel").click()
    page.wait(lambda: page.said == "Cancelled.")
    assert page.find("make-plans").is_enabled()
    page.wait(lambda: not has_job(page))
    page.pick("num", "1")
    page.pick("candidates", "1")
    page.find("make-plans").click()
    page.wait(lambda: has_job(page))
    page.reload()
    page.wait(lambda: "Looking" in page.said)
    page.wait_for_work()
    assert page.all("#variants li") or "No plan was found" in page.said, page.said


def test_a_drawing_that_has_a_plan_is_not_called_contradictory(page):
    """Rectangles cannot do it; the living room of its plan is L-shaped."""
    page.open()
    page.add("LivingRoom", "SecondRoom", "Bathroom")
    for k, (a, b, relation) in enumerate([(2, 0, "inside"), (1, 2, "right-of"), (0, 1, "above")]):
        page.relate(k, a, relation, b)
    page.wait(lambda: "unless rooms overlap or are L-shaped" in page.said)
    page.find("realise").click()
    page.wait(lambda: "A plan of" in page.said)
    with pytest.raises(TimeoutException):  # a change is checked after .3 s
        page.wait(lambda: "A plan of" not in page.said, seconds=2)


def test_plans_of_an_earlier_plot_are_kept_and_not_chosen(page):
    page.open()
    draw_plot(page)
    page.find("tab-brief").click()
    page.fill(page.find("least-rooms"), 4)
    page.fill(page.find("most-rooms"), 4)
    page.pick("num", "1")
    page.pick("candidates", "1")
    with page.holding("api/plan"):
        page.find("make-plans").click()
        page.wait_for_held()
        page.find("tab-plot").click()
        page.fill(page.find("north"), 90)
    page.wait(lambda: "changed meanwhile" in page.said)
    assert page.all("#variants li")
    assert not page.all("#variants .chosen")
    assert not page.find("plan").is_displayed()


def test_it_speaks_german(page):
    page.open()
    page.pick("language", "de")
    page.wait(lambda: page.find("make-plans").text == "Pläne machen")
    assert page.run("return document.documentElement.lang") == "de"
    page.add("Kitchen")
    texts = page.run("return document.body.innerText")
    assert "Küche" in texts
    labels = page.run("return import('/page/labels.js').then((m) => m.missing())")
    assert labels == []
    page.pick("language", "en")
    page.wait(lambda: page.find("make-plans").text == "Make plans")


def test_plans_are_of_the_drawing_until_there_is_a_brief(page):
    page.open()
    page.add("LivingRoom")
    assert page.find("source").get_attribute("value") == "drawing"
    page.find("tab-brief").click()
    page.pick("add-count", "Kitchen")
    assert page.find("source").get_attribute("value") == "brief"
    page.pick("source", "drawing")
    page.find("undo").click()
    page.find("undo").click()
    assert page.find("source").get_attribute("value") == "drawing"
    page.find("make-plans").click()
    page.wait_for_work()
    assert "A plan of" in page.said or "best first" in page.said, page.said
    assert page.find("plan").is_displayed()


def test_another_link_is_followed_in_the_same_tab(page):
    page.open()
    page.add("LivingRoom")
    one = page.driver.current_url
    page.add("Kitchen")
    page.run("location.hash = arguments[0]", one.partition("#")[2])
    page.wait(lambda: len(page.all("#rooms li")) == 1)
    page.find("undo").click()
    assert len(page.all("#rooms li")) == 2


# -- access


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_focus_is_seen(page, width):
    page.resize(width, 844, mobile=width == 390)
    page.open()
    assert page.access_faults() == []
    page.find("example").click()
    page.find("tab-drawing").click()
    page.realise_two_rooms()
    for tab in ("plot", "brief", "drawing"):
        page.find(f"tab-{tab}").click()
        assert page.access_faults() == []
        assert page.run("return document.documentElement.scrollWidth") == width
    page.find("tab-drawing").send_keys(Keys.ARROW_RIGHT)
    assert page.driver.switch_to.active_element.get_attribute("id") == "tab-plot"


# -- the whole way


def ask_for_plans(page: Page, num: int) -> None:
    page.find("tab-brief").click()
    page.pick("add-count", "Bedroom")
    page.fill(page.all("#counts input")[0], 3)
    page.pick("add-count", "Kitchen")
    page.find("add-rule").click()  # some kitchen beside the living room
    page.wait(lambda: "kitchen" in page.find("meaning").text)
    page.fill(page.find("area"), 95)
    page.pick("num", str(num))
    page.pick("candidates", "1")
    page.find("make-plans").click()
    page.wait(lambda: page.find("progress").is_displayed())
    page.wait_for_work()
    assert "best first" in page.said or "A plan of" in page.said, page.said


@pytest.mark.parametrize(("width", "height", "num"), [(1280, 800, 6), (390, 844, 2)])
def test_from_a_plot_and_a_wish_to_files(page, downloads, width, height, num):
    page.resize(width, height, mobile=width < 800)
    page.open()
    draw_plot(page)
    page.click_plot(5.5, 9)
    assert page.all("#plot-board .entrance")
    ask_for_plans(page, num)
    variants = page.all("#variants li")
    assert 1 <= len(variants) <= num
    if width < 800:  # the answer is seen without scrolling
        page.wait(lambda: 0 <= page.find("plans").rect["y"] - page.run("return scrollY") < 400)
    page.press(page.all("#variants .pick")[-1])
    assert page.all("#variants li")[-1].get_attribute("class") == "chosen"
    assert page.find("plan").is_displayed()
    assert page.find("picture").get_attribute("alt").count("m²") >= 5

    def files() -> tuple[Any, ...]:
        pytest.importorskip("ifcopenshell")
        (plan,) = read_diagrams(page.save_plan(downloads, "dxf"))
        return plan.to_json(), page.save_plan(downloads, "ifc").read_text()

    first = files()
    drawn = FloorPlan.of(read_diagrams(downloads / "plan.dxf")[0])
    assert sum("Room" in name and name != "LivingRoom" for name in drawn.diagram.room_names) >= 3
    assert drawn.outline.area == pytest.approx(99, abs=0.1)
    page.reload()
    assert page.find("plan").is_displayed()
    assert files() == first
    if len(variants) > 1:
        for k in (0, 1):
            page.press(page.all("#variants input")[k])
        page.press(page.find("compare"))
        assert len(page.all("#both img")) == 2
        assert page.access_faults() == []
        page.find("comparison").find_element(By.ID, "end-compare").click()
        order = [each.text for each in page.all("#variants strong")]
        page.press(page.find("weighing"))
        assert page.access_faults() == []
        for each in page.all("#weights input"):
            page.run("arguments[0].value = 0; arguments[0].dispatchEvent(new Event('input'))", each)
        assert all(each.text.endswith("0%") for each in page.all("#variants strong"))
        page.press(page.find("even"))
        assert [each.text for each in page.all("#variants strong")] == order
    assert page.run("return document.documentElement.scrollWidth") == width
    page.has_no_complaints()
