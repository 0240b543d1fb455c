"""The page of the studio in a browser without a screen."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from floor_plans.studio.app import create_app

FOCUS = Path(__file__).with_name("studio_focus.js")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BROWSER and DRIVER),
        reason="no chromium and chromedriver are installed (apt-get install chromium-driver)",
    ),
]
"""Marks of the tests of a page."""

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1400,1000", "--lang=en-US"),
)


@contextmanager
def served(algorithm: Any) -> Iterator[str]:
    """The address of a studio that is served by a thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_app(algorithm)
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_config=None, access_log=False, ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def browser(profile: Path, downloads: Path) -> Iterator[Any]:
    """A browser that saves files without asking."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """What a person sees and does."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def has_no_complaints(self) -> None:
        """Checks that the browser logged nothing since it was asked last."""
        complaints = [each["message"] for each in self.driver.get_log("browser")]
        assert not complaints, complaints

    def open(self, fragment: str = "") -> None:
        """As on a first visit."""
        self.driver.get(self.address + "page/icon.svg")
        self.driver.execute_script("sessionStorage.clear(); localStorage.clear()")
        self.driver.get(self.address + fragment)
        self.wait(lambda: self.find("model").text)

    def reload(self) -> None:
        self.driver.refresh()
        self.wait(lambda: self.find("model").text)

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def find(self, name: str) -> Any:
        return self.driver.find_element(By.ID, name)

    def access_faults(self) -> list[str]:
        """Faults that axe-core finds, and controls whose focus is not seen."""
        found = [
            f"{each['id']}: {node['html'][:120]}"
            for each in Axe().run(self.driver)["violations"]
            for node in each["nodes"]
        ]
        return found + list(self.run(FOCUS.read_text()))

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: Any, seconds: float = 60) -> Any:
        return WebDriverWait(self.driver, seconds).until(lambda _: condition())

    def wait_for_work(self, seconds: float = 800) -> None:
        """Until nothing can be cancelled any more."""
        self.wait(lambda: not self.find("cancel").is_displayed(), seconds)

    def add(self, *types: str) -> None:
        for each in types:
            Select(self.find("add-room")).select_by_value(each)

    def realise_two_rooms(self) -> None:
        """A living room with a kitchen to its right, and a plan of both."""
        self.add("LivingRoom", "Kitchen")
        self.relate(0, 1, "left-of", 0)
        self.find("realise").click()
        self.wait_for_work()

    def save_plan(self, downloads: Path, format: str) -> Path:
        """The file that the button beside the plan saves."""
        path = downloads / f"plan.{format}"
        path.unlink(missing_ok=True)
        self.press(self.all(f".exports [data-format={format}]")[0])
        self.wait(path.is_file)
        self.wait(lambda: self.said == f"Saved plan.{format}.")
        return path

    def pick(self, name: str, value: str) -> None:
        Select(self.find(name)).select_by_value(value)

    def choose(self, selector: str, index: int, value: str) -> None:
        Select(self.all(selector)[index]).select_by_value(value)

    def fill(self, field: Any, value: object) -> None:
        """Type in the place of what is there."""
        field.send_keys(Keys.CONTROL + "a" + Keys.NULL, str(value), Keys.TAB)

    @contextmanager
    def holding(self, path: str) -> Iterator[None]:
        """The next request to a path is sent at the end."""
        script = """
            const real = window.fetch, path = arguments[0];
            window.fetch = async (...of) => {
              if (String(of[0]).endsWith(path)) {
                await new Promise((go) => { window.go = go; });
                window.fetch = real;
              }
              return real(...of);
            };"""
        self.run(script, path)
        yield
        self.run("window.go()")

    def wait_for_held(self) -> None:
        self.wait(lambda: self.run("return Boolean(window.go)"))

    def press(self, element: Any) -> None:
        """Click what the line at the bottom of a phone may cover."""
        self.run("arguments[0].scrollIntoView({ block: 'center' })", element)
        element.click()

    def relate(self, number: int, a: int, relation: str, b: int) -> None:
        """The relation of the row ``number``, which is new."""
        self.find("add-relation").click()
        row = f"#relations li:nth-child({number + 1}) select"
        ends = {int(each.get_attribute("value")) for each in self.all(row)[::2]}
        if ends != {a, b}:
            raise AssertionError(f"the page proposed {ends}, not {a} and {b}")
        if self.all(row)[0].get_attribute("value") != str(a):
            turned = {"left-of": "right-of", "above": "below", "inside": "surrounding"}
            relation = (turned | {b: a for a, b in turned.items()})[relation]
        self.choose(row, 1, relation)

    def click_plot(self, x: float, y: float) -> None:
        """A place in metres on the plot."""
        self.run("document.getElementById('plot-board').scrollIntoView({block: 'center'})")
        self.drag_plot((x, y), (x, y))

    def drag_plot(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        from_here, to_there = self._on_screen(*start), self._on_screen(*end)
        actions = webdriver.ActionChains(self.driver, duration=0)
        mouse = actions.w3c_actions.pointer_action
        mouse.move_to_location(*from_here).pointer_down()
        if end != start:
            mouse.move_to_location(*to_there)
        mouse.pointer_up()
        actions.perform()

    def _on_screen(self, x: float, y: float) -> tuple[int, int]:
        script = """
            const board = document.getElementById("plot-board");
            const point = new DOMPoint(arguments[0], arguments[1]);
            const at = point.matrixTransform(board.getScreenCTM());
            return [Math.round(at.x), Math.round(at.y)];"""
        found_x, found_y = self.run(script, x, y)
        return found_x, found_y

    @property
    def said(self) -> str:
        return str(self.find("said").text)

    def keys(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def undo(self, *, redo: bool = False) -> None:
        held = [Keys.CONTROL, Keys.SHIFT] if redo else [Keys.CONTROL]
        chain = webdriver.ActionChains(self.driver)
        for key in held:
            chain = chain.key_down(key)
        chain = chain.send_keys("z")
        for key in held:
            chain = chain.key_up(key)
        chain.perform()
