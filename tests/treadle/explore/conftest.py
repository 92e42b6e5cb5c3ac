"""What shows the page needs: Node for its simulator, Chromium for the page itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.explore import page, presets
from treadle.skeletons.schedules import Column, Row

SIMULATOR = Path(page.__code__.co_filename).with_name("simulator.js")


@pytest.fixture(scope="session")
def html() -> str:
    """The page, with its own programs on one small shape, and two of their kernels."""
    return page(presets(((8, 12),)), (Row(), Column(8)))


@pytest.fixture(scope="session")
def node() -> Callable[[str, Any], Any]:
    """`node(body, given)`: what an async function of the simulator `S` and `given` returns."""
    if shutil.which("node") is None:
        pytest.skip("there is no `node` on PATH to run the page's simulator with")

    def run(body: str, given: Any) -> Any:
        script = f"""
            const S = require({json.dumps(str(SIMULATOR))});
            const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
            (async () => {{ {body} }})().then((x) => console.log(JSON.stringify(x)));
        """
        done = subprocess.run(
            ["node", "-e", script], input=json.dumps(given), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium, driven by selenium."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("there is no `chromium` with `chromedriver` on PATH to open the page in")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    own = tmp_path_factory.mktemp("chromium")
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
                 "disable-background-networking", "disable-component-update", "disable-sync",
                 "hide-scrollbars", f"user-data-dir={own}"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield opened
    opened.quit()
