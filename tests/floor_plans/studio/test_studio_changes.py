"""A plan that is changed, in a browser without a screen."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

import studio_browser
from discrete_diffusion import load
from discrete_diffusion.hub import boxed_model
from floor_plans import read_diagrams
from studio_browser import Page, browser, needs_browser, served

pytestmark = needs_browser

LIVING, KITCHEN, BATH, BEDROOM = range(4)
LEFT_OF, ABOVE, RIGHT_OF, APART = 2, 3, 7, 10  # in the address
ROOMS = [
    ["LivingRoom", 1, 0, 0, 0],
    ["Kitchen", 1, -120, 60, 0],
    ["Bathroom", 1, -60, -120, 0],
    ["MasterRoom", 1, 140, 0, 0],
]
RELATIONS = [
    *([KITCHEN, LIVING, LEFT_OF, 1], [BATH, LIVING, ABOVE, 1], [BEDROOM, LIVING, RIGHT_OF, 1]),
    *([KITCHEN, BATH, APART, 1], [KITCHEN, BEDROOM, APART, 1], [BATH, BEDROOM, APART, 1]),
]
PLOT = {"corners": [[0, 0], [9, 0], [9, 7], [0, 7]], "closed": True}


@pytest.fixture(scope="module")
def page(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Of the model that comes with the package."""
    profile = tmp_path_factory.mktemp("browser")
    with served(load(boxed_model())) as address, browser(profile, downloads) as driver:
        page = Page(driver, address)
        page.resize(1280, 800)
        yield page


@pytest.fixture
def plan(page: Page) -> dict[str, Any]:
    """The best of two plans of four rooms, chosen and open to changes."""
    drawn = json.dumps([ROOMS, RELATIONS, {}, PLOT, {"source": "drawing", "num": 2}])
    page.driver.get_log("browser")
    page.open("#" + base64.urlsafe_b64encode(drawn.encode()).decode().rstrip("="))
    page.find("make-plans").click()
    page.wait_for_work()
    page.press(page.all("#variants .pick")[-1])
    page.press(page.find("change"))
    return kept_plan(page)


def kept_plan(page: Page) -> dict[str, Any]:
    """The plan that is chosen, as the browser keeps it."""
    page.run("dispatchEvent(new Event('pagehide'))")
    name = "discrete-diffusion studio"
    kept = json.loads(page.run("return sessionStorage.getItem(arguments[0])", name))
    (found,) = [each["plan"] for each in kept["plans"] if each["id"] == kept["document"][5]]
    return dict(found)


def choose_room(page: Page, room: int) -> None:
    page.press(page.all("#plan-rooms button.what")[room])


def lock(page: Page, room: int, keep: str) -> None:
    page.choose("#plan-rooms li > select", room, keep)


def wall(page: Page, side: str) -> Any:
    (handle,) = page.all(f"#plan-board [data-side={side}]")
    return handle


def drag(page: Page, side: str, metres: float) -> None:
    """A wall of the chosen room, along its axis."""
    page.run("document.getElementById('plan-board').scrollIntoView({block: 'center'})")
    handle = wall(page, side)
    script = """
        const box = arguments[0].getBoundingClientRect();
        const scale = document.getElementById("plan-board").getScreenCTM().a;
        return [box.x + box.width / 2, box.y + box.height / 2, scale].map(Math.round);"""
    x, y, scale = page.run(script, handle)
    far = round(metres * scale)
    actions = studio_browser.webdriver.ActionChains(page.driver, duration=0)
    mouse = actions.w3c_actions.pointer_action
    mouse.move_to_location(x, y).pointer_down()
    across = side in ("left", "right")
    for share in (0.5, 1):
        step = round(share * far)
        mouse.move_to_location(x + step * across, y + step * (not across))
    mouse.pointer_up()
    actions.perform()


def find_nearest(page: Page) -> str:
    page.press(page.find("find-nearest"))
    page.wait_for_work()
    return str(page.find("change-said").text)


def saved_text(page: Page, downloads: Path, format: str) -> str:
    path = page.save_plan(downloads, format)
    if format == "dxf":  # which says when it was written
        return str(read_diagrams(path)[0].to_json())
    return path.read_text()


def test_a_wall_moves_and_a_locked_room_stays_in_files_too(page, plan, downloads):
    number = page.find("plan-name").text
    lock(page, BATH, "place")
    choose_room(page, KITCHEN)
    before = plan["boxes"][KITCHEN][2]
    drag(page, "right", 0.5)
    (moved,) = page.all("#moves li")
    assert moved.text.startswith("Right wall of Kitchen: +0."), moved.text
    page.run("arguments[0].focus()", wall(page, "right"))
    page.keys(Keys.ARROW_LEFT)
    by = float(wall(page, "right").get_attribute("aria-valuenow")) - before
    assert by == pytest.approx(0.4, abs=0.11)
    said = find_nearest(page)
    assert "takes its place" in said, said
    after = kept_plan(page)
    assert after["boxes"][BATH] == pytest.approx(plan["boxes"][BATH], abs=0.005)
    assert after["boxes"][KITCHEN][2] == pytest.approx(before + by, abs=0.051)
    assert not page.all("#moves li")
    assert page.all("#plan-board .locked.place")
    formats = ["dxf", *(["ifc"] if importlib.util.find_spec("ifcopenshell") else [])]
    first = [saved_text(page, downloads, each) for each in formats]
    page.reload()
    assert "changed from" in page.find("plan-name").text
    assert [saved_text(page, downloads, each) for each in formats] == first
    page.undo()  # the answer is one step
    assert page.find("plan-name").text == number
    assert kept_plan(page) == plan
    page.has_no_complaints()


def test_rooms_are_swapped_added_and_given_areas_and_reset(page, plan):
    choose_room(page, BATH)
    page.choose("#plan-rooms .under select", 0, str(KITCHEN))
    assert not page.find("plan").is_displayed()  # no file of a plan that is none any more
    said = find_nearest(page)
    assert "takes its place" in said, said
    swapped = kept_plan(page)
    assert swapped["rooms"] == ["LivingRoom", "Bathroom", "Kitchen", "MasterRoom"]
    choose_room(page, LIVING)
    page.pick("new-type", "Storage")
    page.pick("new-side", "below")
    page.press(page.find("add-beside"))
    assert page.all("#plan-rooms li")[-1].text.startswith("Storage (new)")
    areas = page.all("#plan-rooms input")
    page.fill(areas[BEDROOM], round(swapped["areas"][BEDROOM] + 2, 1))
    page.press(page.find("reset-changes"))
    assert len(page.all("#plan-rooms li")) == 4
    assert page.find("plan").is_displayed()
    page.undo()
    assert len(page.all("#plan-rooms li")) == 5
    said = find_nearest(page)
    assert "takes its place" in said or "No plan keeps all this" in said, said
    if "takes its place" in said:
        assert kept_plan(page)["rooms"][4] == "Storage"
    page.has_no_complaints()


def test_what_cannot_be_is_said_at_once_and_by_the_studio(page, plan):
    lock(page, BEDROOM, "place")
    choose_room(page, LIVING)
    drag(page, "right", 1.5)
    assert "locked" in page.find("change-said").text
    lock(page, LIVING, "size")
    lock(page, BATH, "place")
    lock(page, KITCHEN, "place")
    said = find_nearest(page)
    assert "fault" in page.find("change-said").get_attribute("class"), said
    assert page.said


def test_axe_finds_nothing_and_focus_is_seen(page, plan):
    choose_room(page, KITCHEN)
    assert page.access_faults() == []
    assert page.run("return document.documentElement.scrollWidth") == 1280
