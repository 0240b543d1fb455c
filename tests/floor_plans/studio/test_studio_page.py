"""The page of the studio in a browser without a screen: everything a person does with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from discrete_diffusion import load
from floor_plans import PartialDiagram, read_diagrams
from floor_plans.plans.floor_plan import FloorPlan
from plan_examples import agrees
from studio_browser import Page, browser, needs_browser, served

pytestmark = needs_browser


@pytest.fixture(scope="module")
def page(studio_run: Path, downloads: Path, tmp_path_factory) -> Iterator[Page]:
    profile = tmp_path_factory.mktemp("browser")
    with served(load(studio_run)) as address, browser(profile, downloads) as driver:
        yield Page(driver, address)


def test_draw_lock_complete_and_undo(page):
    page.open()
    page.add("LivingRoom", "Kitchen", "", "")
    pills = page.all("#rooms .pill")
    assert [each.text for each in pills] == ["given", "given", "open", "open"]
    pills[1].click()  # a kitchen that may become something else
    page.find("complete").click()
    page.wait(lambda: "completions in" in page.said)
    assert len(page.all("#cards li")) == 4
    page.all("#cards button")[0].click()
    types = [each.get_attribute("value") for each in page.all("#rooms li > select")]
    assert types[0] == "LivingRoom"
    assert "" not in types
    assert [each.text for each in page.all("#rooms .pill")] == ["given", "open", "open", "open"]
    page.keys(Keys.ESCAPE)
    page.undo()
    assert [each.get_attribute("value") for each in page.all("#rooms li > select")][2:] == ["", ""]
    page.undo(redo=True)
    assert [each.get_attribute("value") for each in page.all("#rooms li > select")] == types


def test_rooms_are_related_as_they_lie_by_clicking_them(page):
    page.open()
    page.add("LivingRoom", "Kitchen")  # the kitchen is put left below

    def click(x: int, y: int) -> None:
        """A place on the board, from its middle."""
        board = page.find("board")
        webdriver.ActionChains(page.driver).move_to_element_with_offset(
            board, x, y
        ).click().perform()

    click(40, -30)
    assert "chosen" in page.all("#rooms li")[0].get_attribute("class")
    page.find("relate").click()
    click(-54, 43)
    page.wait(lambda: len(page.all("#relations li")) == 1)
    said = [each.get_attribute("value") for each in page.all("#relations li select")]
    assert said == ["0", "right-above", "1"]
    click(0, 200)
    assert not page.all("#rooms li.chosen")


def test_a_link_holds_the_drawing(page):
    page.open()
    page.add("LivingRoom", "Balcony")
    fragment = page.driver.current_url.partition("#")[2]
    page.open(f"#{fragment}")
    types = [each.get_attribute("value") for each in page.all("#rooms li > select")]
    assert types == ["LivingRoom", "Balcony"]
    page.open("#nonsense")
    assert page.said == "The link could not be read; here is an empty drawing."


def test_a_plan_is_realised_and_saved(page, downloads):
    page.open()
    page.realise_two_rooms()
    page.wait(lambda: page.said.startswith("A plan of"))
    picture = page.find("picture")
    page.wait(lambda: page.driver.execute_script("return arguments[0].naturalWidth", picture) > 0)
    assert "Kitchen" in picture.get_attribute("alt")
    for of, format in (
        ("plan", "dxf"),
        ("plan", "svg"),
        ("diagram", "graphml"),
        ("diagram", "json"),
    ):
        page.find("export").click()
        (button,) = page.all(f"#export button[data-of={of}][data-format={format}]")
        button.click()
        page.wait(lambda name=f"{of}.{format}": (downloads / name).is_file())
    page.wait(lambda: page.said == "Saved diagram.json.")
    (drawn,) = read_diagrams(downloads / "diagram.graphml")
    found = PartialDiagram.from_json(json.loads((downloads / "diagram.json").read_text()))
    assert agrees(found, drawn)
    plan = FloorPlan.of(read_diagrams(downloads / "plan.dxf")[0])
    assert plan.diagram.relations == drawn.relations
    assert "<svg" in (downloads / "plan.svg").read_text()


def test_a_plan_is_of_what_is_drawn_now(page, downloads):
    """After an edit, and after New, there is none to save, until the edit is taken back."""
    page.open()

    def may_be_saved() -> bool:
        (button,) = page.all("#export button[data-of=plan][data-format=geojson]")
        return button.is_enabled()

    page.realise_two_rooms()
    page.wait(lambda: page.said.startswith("A plan of"))
    assert may_be_saved()
    assert page.find("plan").is_displayed()
    page.choose("#rooms li > select", 1, "Bathroom")
    assert not may_be_saved()
    assert not page.find("plan").is_displayed()
    page.keys(Keys.ESCAPE)
    page.find("undo").click()
    assert may_be_saved()
    page.find("board").send_keys(Keys.ARROW_RIGHT, Keys.SHIFT + Keys.ARROW_RIGHT)  # it moves only
    assert may_be_saved()
    page.find("clear").click()
    assert not may_be_saved()
    page.add("LivingRoom", "Balcony")
    page.relate(0, 1, "above", 0)
    assert not may_be_saved()
    page.find("realise").click()
    page.wait(lambda: page.said.startswith("A plan of"))
    page.find("export").click()
    (button,) = page.all("#export button[data-of=plan][data-format=geojson]")
    button.click()
    page.wait(lambda: (downloads / "plan.geojson").is_file())
    (drawn,) = read_diagrams(downloads / "plan.geojson")
    assert sorted(drawn.room_names) == ["Balcony", "LivingRoom"]


def test_only_plans_that_break_no_rule_are_asked_for_if_that_is_ticked(page):
    page.open()
    page.add("LivingRoom", "Kitchen")
    page.relate(0, 1, "left-of", 0)
    seen = """
        window.asked = [];
        const real = window.fetch;
        window.fetch = (...of) => {
          if (String(of[0]).endsWith("api/plan")) window.asked.push(JSON.parse(of[1].body));
          return real(...of);
        };"""
    page.driver.execute_script(seen)
    page.pick("num", "1")
    page.find("livable").click()
    for rules in ("irc", "none"):
        page.pick("living-rules", rules)
        page.find("make-plans").click()
        page.wait_for_work()
    page.find("realise").click()  # finds a plan, whatever it breaks
    page.wait_for_work()
    asked = page.driver.execute_script("return window.asked")
    assert [each.get("livable") for each in asked] == [True, None, None]
    assert not page.find("livable").is_displayed()
    page.reload()
    page.pick("living-rules", "irc")
    assert page.find("livable").is_selected()


def test_another_relation_that_would_do_is_drawn_at_a_click(page):
    """The first answer is given what the studio says of a plan that breaks a rule."""
    page.open()
    page.driver.execute_script("""
        const real = window.fetch;
        let isFirst = true;
        window.fetch = async (...of) => {
          const answer = await real(...of);
          if (!String(of[0]).includes("api/jobs/")) return answer;
          const state = await answer.json();
          for (const each of isFirst ? state.answer?.plans ?? [] : []) {
            each.why = ["ruled out: kitchen has 1.2 m of outer wall"];
            each.instead = { rooms: [0, 1], now: "left-of", relation: "above" };
            isFirst = false;
          }
          return new Response(JSON.stringify(state), { status: answer.status });
        };""")
    page.realise_two_rooms()
    page.wait(lambda: page.said.startswith("A plan of"))
    assert [each.text for each in page.all("#given-up li")][-1].startswith("ruled out: kitchen")
    (button,) = page.all("#mend button")
    assert "above" in button.text
    page.press(button)
    page.wait(lambda: not page.all("#mend button"))
    page.wait_for_work()
    relation = page.all("#relations li select")[1]
    assert relation.get_attribute("value") == "above"
    page.find("undo").click()  # the choice of the plan
    page.find("undo").click()
    assert page.all("#relations li select")[1].get_attribute("value") == "left-of"


def change_a_room(page):
    page.choose("#rooms li > select", 1, "Bathroom")


def turn_the_plot(page):
    page.find("tab-plot").click()
    page.fill(page.find("north"), 90)


@pytest.mark.parametrize("change", [change_a_room, turn_the_plot])
def test_a_plan_that_is_found_after_an_edit_is_not_taken(page, change):
    page.open()
    page.add("LivingRoom", "Kitchen")
    page.relate(0, 1, "left-of", 0)
    with page.holding("api/plan"):
        page.find("realise").click()
        page.wait_for_held()
        change(page)
    page.wait(lambda: "changed meanwhile" in page.said)
    assert not page.find("plan").is_displayed()


@pytest.mark.parametrize("key", ["a", "A"])
def test_the_key_for_a_room_adds_none_by_itself(page, key):
    page.open()
    page.add("LivingRoom")
    page.find("board").send_keys(Keys.ESCAPE, key)
    assert page.driver.switch_to.active_element.get_attribute("id") == "add-room"
    page.keys(Keys.TAB)
    assert len(page.all("#rooms li")) == 1


def link(rooms: object, relations: object, brief: object) -> str:
    text = json.dumps([rooms, relations, brief]).encode()
    return "#" + base64.urlsafe_b64encode(text).decode().rstrip("=")


ROOM = ["Kitchen", 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("rooms", "relations", "brief"),
    [
        ([ROOM, ROOM], [[0, 1, "length", 1]], {}),  # a property of the list of relations
        ([ROOM, ROOM], [[0, 1, "map", 1]], {}),
        ([ROOM, ROOM], [[0, 1, 2, 1], [1, 0, 3, 1]], {}),  # a pair twice
        ([ROOM], [], {"counts": None}),
        ([ROOM], [], {"counts": [{"type": "Kitchen", "how": [], "number": "2"}]}),
        ([ROOM], [], {"rules": [None]}),
        ([ROOM], [], {"rules": [{"quantity": "some", "a": 1, "relation": 2, "b": 3}]}),
        ([ROOM], [], {"least": "many"}),
        ([ROOM], [], None),
        ([[{"a": 1}, 1, 0, 0, 0]], [], {}),
        ([["Kitchen", 1, 0, 0, -5]], [], {}),
        ([["Kitchen", 1, 1e300, 0, 0]], [], {}),
        ([["Kitchen", 1]], [], {}),
        ([ROOM] * 65, [], {}),
        ({"length": 1}, [], {}),
        ([ROOM, ROOM], {"0": [0, 1, 2, 1]}, {}),
    ],
)
def test_a_crafted_link_is_refused_in_a_sentence(page, rooms, relations, brief):
    page.driver.get_log("browser")
    page.open(link(rooms, relations, brief))
    page.wait(lambda: page.said == "The link could not be read; here is an empty drawing.")
    assert not page.all("#rooms li")
    page.add("LivingRoom")  # and it works
    assert len(page.all("#rooms li")) == 1
    assert not page.driver.get_log("browser")


def test_a_link_of_words_that_the_model_has_not_works(page):
    page.driver.get_log("browser")
    brief = {"counts": [{"type": "Cinema", "how": "exactly", "number": 1}], "other": 1}
    page.open(link([["Cinema", 1, 0, 0, 0], [0, 0, 90, 0, 1]], [[0, 1, 12, 1]], brief))
    page.find("complete").click()
    page.wait(lambda: "Cinema" in page.said)
    assert len(page.all("#rooms li")) == 2
    assert not [each for each in page.driver.get_log("browser") if "400" not in each["message"]]


def test_contradictions_glow_with_their_reason(page):
    page.open()
    page.add("LivingRoom", "Kitchen", "Bathroom")
    rows = [f"#relations li:nth-child({k}) select" for k in (1, 2, 3)]
    for row in rows:
        page.find("add-relation").click()
        a, _, b = (each.get_attribute("value") for each in page.all(row))
        around = (int(b) - int(a)) % 3 == 1  # 0 left of 1, 1 left of 2, 2 left of 0
        page.choose(row, 1, "left-of" if around else "right-of")
    page.wait(lambda: "contradict each other" in page.said)
    assert "wrong" in page.find("said").get_attribute("class")
    assert len(page.all("#relations li.wrong")) == 3
    page.find("complete").click()
    page.wait(lambda: "would be left of itself" in page.said or "contradict" in page.said)
    page.all("#relations li .x")[0].click()
    page.wait(lambda: not page.all("#relations li.wrong"))


def test_the_keyboard_suffices(page):
    page.open()
    page.keys("a", "k", Keys.TAB)  # the list of rooms, then its first that begins so
    page.wait(lambda: len(page.all("#rooms li")) == 1)
    page.keys(Keys.SHIFT + Keys.TAB)
    page.find("add-room").send_keys("l")
    page.find("add-room").send_keys(Keys.ENTER, Keys.TAB)
    page.wait(lambda: len(page.all("#rooms li")) >= 2)
    page.find("board").send_keys(Keys.ESCAPE, Keys.ARROW_RIGHT)
    assert len(page.all("#rooms li.chosen")) == 1
    page.find("board").send_keys("r", Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_DOWN)
    page.find("board").send_keys("r")
    page.wait(lambda: len(page.all("#relations li")) == 1)
    page.find("board").send_keys("g")
    assert "open" in [each.text for each in page.all("#rooms .pill")]
    page.find("board").send_keys("c")
    page.wait(lambda: "completions in" in page.said)
    page.find("board").send_keys(Keys.DELETE)
    page.wait(lambda: len(page.all("#rooms li")) == 1)


def test_the_page_says_when_the_studio_answers_again(page):
    page.open()
    page.add("LivingRoom")
    page.run("window.there = fetch; window.fetch = () => Promise.reject()")
    page.find("complete").click()
    page.wait(lambda: "does not answer" in page.said)
    page.run("window.fetch = window.there")
    page.wait(lambda: "answers again" in page.said)


def test_a_brief_is_built_and_answered(page):
    page.open()
    page.find("tab-brief").click()
    Select(page.find("add-count")).select_by_value("Balcony")
    page.choose("#counts select", 0, "at most")
    page.find("connected").click()
    page.wait(lambda: "balcon" in page.find("meaning").text.lower())
    page.find("answer").click()
    page.wait(lambda: "diagrams that meet the brief" in page.said, 120)
    assert len(page.all("#cards li")) == 4
    page.find("most-rooms").send_keys(Keys.BACKSPACE, "99", Keys.TAB)
    page.wait(lambda: "at most 8 rooms" in page.said)
    page.choose("#counts select", 0, "exactly")
    page.all("#counts input")[0].send_keys(Keys.BACKSPACE, "20", Keys.TAB)
    page.wait(lambda: page.all("#counts li.wrong"))


def test_it_fits_a_phone_and_sees_no_other_host(page):
    size = {"width": 375, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.open()
    page.add("LivingRoom", "Kitchen", "Bathroom", "")
    page.press(page.find("add-relation"))
    assert page.driver.execute_script("return document.documentElement.scrollWidth") == 375
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    loaded = page.driver.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert loaded
    assert all(name.startswith((page.address, "blob:")) for name in loaded)
    shown = [each for each in page.driver.get_log("browser") if "400" not in each["message"]]
    assert not shown, shown


def test_a_key_of_the_schema_is_offered_and_asked(page):
    page.open()
    page.find("tab-brief").click()
    Select(page.find("add-key")).select_by_value("open")
    Select(page.find("add-key")).select_by_value("areas")
    assert json.loads(page.find("more").get_attribute("value")) == {
        "open": [["Kitchen", "LivingRoom"]],
        "areas": {"MasterRoom": [12, 16], "Kitchen": 8},
    }
    page.wait(lambda: "open to each other" in page.find("meaning").text)
    assert "12 to 16 m2" in page.find("meaning").text
    page.find("more").clear()
    page.find("more").send_keys("{light")
    page.find("add-rule").click()
    page.wait(lambda: "no JSON object" in page.said)
