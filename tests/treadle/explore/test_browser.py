"""The page as a person meets it, in Chromium."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from treadle.skeletons.schedules import Column, Hilbert, Row
from treadle.skeletons.simulator import Cache, StepLru, simulate, stencil_pattern

pytestmark = pytest.mark.browser
WINDOW = stencil_pattern(16, 16, 7, 7)


class Page:
    """The page in a browser."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser, self.url = browser, path.as_uri()

    def open(self, choice: str = "", width: int = 1280, height: int = 800) -> dict[str, str]:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.browser.get("about:blank")
        self.browser.get(f"{self.url}#{choice}")
        return self.settled()

    def settled(self) -> dict[str, str]:
        """The page's numbers, once all curves are drawn."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            data: dict[str, str] = self.js("return {...document.body.dataset}")
            if data.get("ready") == data.get("swept") == "yes":
                return data
            time.sleep(0.02)
        raise AssertionError(f"the page did not settle: {self.text('note')}")

    def js(self, code: str, *args: Any) -> Any:
        return self.browser.execute_script(code, *args)

    def text(self, name: str) -> str:
        return str(self.js("return document.getElementById(arguments[0]).textContent", name))

    def choose(self, name: str, value: Any) -> dict[str, str]:
        """Moves a slider, or picks from a list."""
        self.js(
            """const e = document.getElementById(arguments[0]); e.value = arguments[1];
            e.dispatchEvent(new Event("input", {bubbles: true}));
            e.dispatchEvent(new Event("change", {bubbles: true}));""", name, value,
        )  # fmt: skip
        time.sleep(0.05)
        return self.settled()

    def inks(self, name: str) -> int:
        """How many colours a picture has."""
        return int(
            self.js(
                """const c = document.getElementById(arguments[0]);
                const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                return new Set(new Uint32Array(d.buffer)).size;""",
                name,
            )
        )


@pytest.fixture(scope="module")
def shown(chromium: Any, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Page:
    path = tmp_path_factory.mktemp("page") / "explore.html"
    path.write_text(request.getfixturevalue("html"), encoding="utf-8")
    return Page(chromium, path)


def test_figure_4(shown: Page) -> None:
    data = shown.open("program=stencil7&shape=0&order=Column&width=4&lines=24&line=4")
    assert [data[k] for k in ("misses", "accesses", "optimal", "compulsory")] == [
        "264", "12543", "249", "90",
    ]  # fmt: skip
    assert shown.text("row-bar") == "462"
    for picture in ("order", "memory", "diagram", "totals", "sweep"):
        assert shown.inks(picture) > 3, picture
    assert "schedule=Column(4)" in shown.text("schedule")
    assert not shown.browser.get_log("browser"), "errors on the console"


def test_what_a_person_drags(shown: Page) -> None:
    shown.open("program=stencil7&shape=0")
    data = shown.choose("width", 6)
    assert int(data["misses"]) == simulate(WINDOW, Column(6), Cache(24, 4, StepLru())).misses
    data = shown.choose("lines", 29)  # the thirtieth size: every number is there up to 64
    assert int(data["misses"]) == simulate(WINDOW, Column(6), Cache(30, 4, StepLru())).misses
    data = shown.choose("line", 3)
    assert int(data["misses"]) == simulate(WINDOW, Column(6), Cache(30, 8, StepLru())).misses
    shown.js("document.querySelector('input[value=Hilbert]').click()")
    data = shown.settled()
    assert int(data["misses"]) == simulate(WINDOW, Hilbert(), Cache(30, 8, StepLru())).misses
    ranking = shown.text("ranking")
    row = simulate(WINDOW, Row(), Cache(30, 8, StepLru())).misses
    assert f"Row() {row:,}" in ranking
    kept = "return new Promise((done) => setTimeout(() => done(location.hash), 400))"
    assert "order=Hilbert" in shown.js(kept)


def test_time(shown: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    shown.open("program=product&shape=0&step=10")
    assert shown.text("now").startswith("11 of 256")
    keys = ActionChains(shown.browser)
    keys.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT).perform()
    assert shown.text("now").startswith("12 of 256")
    ActionChains(shown.browser).send_keys(Keys.END).perform()
    assert shown.text("now").startswith("256 of 256")
    before = shown.inks("order")
    ActionChains(shown.browser).send_keys(Keys.SPACE).perform()  # from the beginning again
    assert shown.js("return document.getElementById('play').getAttribute('aria-label')") == "Pause"
    ActionChains(shown.browser).send_keys(Keys.SPACE).perform()
    assert shown.js("return document.getElementById('play').getAttribute('aria-label')") == "Play"
    assert not shown.text("now").startswith("256 of 256")
    assert before > 10


def test_every_program_and_tab(shown: Page) -> None:
    for key in shown.js("return [...document.getElementById('program').options].map(o => o.value)"):
        data = shown.open(f"program={key}&tab=cuda")
        assert int(data["misses"]) >= int(data["optimal"]) >= int(data["compulsory"]) > 0
        assert "__global__" in shown.text("text"), key
        shown.js("document.getElementById('tab-explain').click()")
        assert "Kernel 1" in shown.text("text")
        shown.js("document.getElementById('show-loads').click()")
        assert shown.inks("memory") > 2
        assert not shown.browser.get_log("browser"), key


def test_an_order_of_ones_own(shown: Page) -> None:
    shown.open("program=transposition&order=Own")
    assert shown.text("wrong") == ""
    shown.choose("rule", "i * 0, 0")
    assert "both visit (0, 0)" in shown.text("wrong")
    data = shown.choose("rule", "i / cols, i % cols")
    row = shown.text("row-bar")
    assert shown.text("wrong") == "" and data["misses"] == row.replace(",", "")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844), (768, 1024)])
def test_it_fits(shown: Page, width: int, height: int) -> None:
    shown.open("program=histogram", width, height)
    assert shown.js("return document.documentElement.scrollWidth") <= width
    wide = shown.js(
        "return [...document.querySelectorAll('canvas')].map(c => c.getBoundingClientRect().right)"
    )
    assert max(wide) <= width


def test_nothing_lies_over_a_picture_on_a_phone(shown: Page) -> None:
    """At the top, and where the player is in the middle: it and all that moves fit one screen."""
    shown.open("program=product", 390, 844)
    places = """const all = [...document.querySelectorAll("#moving canvas, #transport")];
        return all.map((e) => { const r = e.getBoundingClientRect();
                                return [r.left, r.top, r.right, r.bottom]; })"""
    for down in (0, 600):
        shown.js(f"window.scrollTo(0, {down})")
        *pictures, player = shown.js(places)
        assert len(pictures) == 4
        for left, top, right, bottom in pictures:
            assert (bottom <= player[1] or top >= player[3]
                    or right <= player[0] or left >= player[2])  # fmt: skip
    assert player[3] - min(top for _, top, _, _ in pictures) <= 844


def test_how_to_read_it_comes_first_and_nothing_is_half_empty(shown: Page) -> None:
    shown.open("program=stencil7&shape=0", 1400, 900)
    box = "const r = document.getElementById(arguments[0]).getBoundingClientRect();"
    top = {k: shown.js(f"{box} return r.top", k) for k in ("how", "controls", "stage", "source")}
    assert top["how"] < min(top["controls"], top["stage"]) and top["source"] < 900
    wide = {
        k: shown.js(f"{box} return r.width", k) for k in ("stage", "order", "memory", "diagram")
    }
    assert wide["order"] + wide["memory"] + wide["diagram"] > 0.95 * wide["stage"]
    assert shown.js(f"{box} return r.width", "policy") <= shown.js(f"{box} return r.width", "cache")
    high = shown.js(f"{box} return r.bottom", "keys") - top["controls"]
    assert high > 0.75 * (top["source"] - top["stage"])


def test_every_tab_is_about_the_same_extents(shown: Page) -> None:
    for shape, extents in ((0, "n1 = 16, n2 = 16"), (1, "n1 = 8, n2 = 12")):
        shown.open(f"program=stencil7&shape={shape}&tab=explain")
        assert extents in shown.text("text")


def test_names_for_those_who_do_not_see_it(shown: Page) -> None:
    shown.open("program=stencil7&shape=0")
    unnamed = shown.js("""const all = "button, input, select, textarea, canvas";
        return [...document.querySelectorAll(all)]
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
                         || (e.labels && e.labels.length))).map((e) => e.outerHTML)""")
    assert unnamed == []
