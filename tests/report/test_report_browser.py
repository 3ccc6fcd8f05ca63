"""The report in a real browser: what one sees, clicks and types. Nothing is loaded from elsewhere or complains."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example_run import write_example_run
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from codea1_jax.report import build_report

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs a browser: apt-get install chromium chromium-driver",
)
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run with hostile text in it, and two methods side by side, one of them with two seeds."""
    root = tmp_path_factory.mktemp("runs")
    one = write_example_run(root / "one", steps=40, hostile=True)
    lengths = {"a-0": 40, "a-1": 40, "b": 30}
    several = [write_example_run(root / name, steps=n, seed=seed) for seed, (name, n) in enumerate(lengths.items())]
    return {"one": build_report([one]), "several": build_report(several, root / "several.html")}


Open = Callable[..., webdriver.Chrome]

# Charts are drawn together, once the page has a width.
DRAWN = "return document.querySelector('figure.chart .plot svg') !== null"


@pytest.fixture
def opened(chromium: webdriver.Chrome, reports: dict[str, Path]) -> Iterator[Open]:
    """Opens a report; afterwards the console must be empty and the file the only thing that was asked for."""

    def open_(name: str, size: tuple[int, int] = DESKTOP, place: str = "") -> webdriver.Chrome:
        chromium.get("about:blank")
        chromium.get_log("browser"), chromium.get_log("performance")
        phone = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": True}
        if size is PHONE:
            chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        else:
            chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            chromium.set_window_size(*size)
        chromium.get(reports[name].as_uri() + place)
        wait_until(chromium, lambda: chromium.execute_script(DRAWN))
        return chromium

    yield open_
    assert chromium.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    requested = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url.partition("#")[0] for url in requested} <= {path.as_uri() for path in reports.values()}


def one(driver: webdriver.Chrome, css: str) -> WebElement:
    return driver.find_element(By.CSS_SELECTOR, css)


def every(driver: webdriver.Chrome, css: str) -> list[WebElement]:
    return driver.find_elements(By.CSS_SELECTOR, css)


def wait_until(driver: webdriver.Chrome, condition: Callable[[], bool]) -> None:
    """The page draws charts once they have a size, and goes to a question once the address has changed: soon, not at
    once. What was found just before may be gone when it is read."""
    soon = WebDriverWait(driver, 20, poll_frequency=0.05, ignored_exceptions=[StaleElementReferenceException])
    soon.until(lambda _: condition())


def wait_for_another(driver: webdriver.Chrome, css: str, text: str) -> None:
    wait_until(driver, lambda: one(driver, css).text != text)


def questions(driver: webdriver.Chrome) -> int:
    return len(every(driver, "#question-list li"))


def choose(driver: webdriver.Chrome, name: str, value: str) -> None:
    Select(one(driver, f"#filters [name={name}]")).select_by_value(value)


def press(driver: webdriver.Chrome, css: str) -> None:
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", one(driver, css))
    one(driver, css).click()


def test_every_curve_is_drawn_with_its_values(opened):
    page = opened("one")
    charts = every(page, "figure.chart")
    assert len(charts) >= 6
    for chart in charts:
        paths = chart.find_elements(By.CSS_SELECTOR, "path.line, path.area")
        assert paths
        assert all("NaN" not in str(path.get_attribute("d")) for path in paths)
    boxes = [path.rect for path in every(page, "#evaluation svg[role=img] path.line")]
    assert all(box["width"] > 100 for box in boxes)


def test_seeds_of_one_method_are_a_band(opened):
    page = opened("several")
    lines = every(page, "#evaluation svg[role=img] path.line")
    assert len(every(page, "#evaluation path.band")) == len(lines) / 2  # the other half is of the method with one seed
    assert " vs " in one(page, "#title").text


def test_the_keyboard_reads_a_curve_step_by_step(opened):
    page = opened("one")
    plot = one(page, "#training .plot")
    page.execute_script("arguments[0].focus()", plot)
    last = one(page, "#training .chart-step").text
    plot.send_keys(Keys.ARROW_LEFT)
    assert one(page, "#training .chart-step").text not in ("", last)
    assert one(page, "#training .legend output").text


def test_outcome_filters_leave_what_they_name(opened):
    page = opened("one")
    everything = questions(page)
    choose(page, "outcome", "killed")
    cards = every(page, "#question .card")
    assert cards
    assert all("killed" in str(card.get_attribute("class")) or "killed" in card.text.lower() for card in cards)
    choose(page, "outcome", "survived")
    assert 0 < questions(page) <= everything
    assert all("killed" not in str(sign.get_attribute("class")) for sign in every(page, "#question-list .strip span"))


def test_reward_and_text_filters_narrow_the_list_and_clear_restores_it(opened):
    page = opened("one")
    everything = questions(page)
    field = one(page, "#filters [name=text]")
    field.send_keys("no question says this")
    assert questions(page) == 0
    assert "No program matches" in one(page, "#question").text
    press(page, "#filters button.plain")
    assert questions(page) == everything
    one(page, "#filters [name=low]").send_keys("1.0")
    assert questions(page) < everything or all("✓" in s.text for s in every(page, "#question-list .strip span"))


def test_a_place_in_the_browser_is_an_address(opened):
    page = opened("one")
    one(page, "body").send_keys("j")
    there, title = page.current_url, one(page, "#question .question-text").text
    opened("one", place="")
    wait_for_another(page, "#question .question-text", title)
    opened("one", place="#" + there.partition("#")[2])
    assert one(page, "#question .question-text").text == title


def test_the_keyboard_walks_through_questions_programs_and_steps(opened):
    page = opened("one")
    first = one(page, "#question .question-text").text
    one(page, "body").send_keys("j")
    wait_for_another(page, "#question .question-text", first)
    one(page, "body").send_keys("k")
    wait_until(page, lambda: one(page, "#question .question-text").text == first)
    step = one(page, "#question .eyebrow").text
    one(page, "body").send_keys("[")
    wait_for_another(page, "#question .eyebrow", step)
    one(page, "body").send_keys("n")
    assert page.switch_to.active_element.tag_name == "summary"


def test_the_mistake_book_and_the_diff_to_another_step_unfold(opened):
    page = opened("several")
    folds = every(page, "#question .folds details > summary")
    names = [fold.text for fold in folds]
    assert any(name.startswith("Mistake book") for name in names)
    for fold in folds:
        page.execute_script("arguments[0].click()", fold)
    assert every(page, "#question table.book td")
    assert (
        every(page, "#question .diff-line") or "These two programs are the same" in one(page, "#question .folds").text
    )


def test_hostile_text_stays_text(opened):
    page = opened("one")
    assert page.execute_script("return [...document.images, ...document.querySelectorAll('main script')].length") == 0
    assert page.execute_script("return document.querySelector('main').textContent.includes('</script><script>')")


@pytest.mark.parametrize("name", ["one", "several"])
def test_a_phone_scrolls_the_page_in_one_direction_only(opened, name):
    page = opened(name, PHONE)
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    assert one(page, "figure.chart svg[role=img]").rect["width"] <= PHONE[0]


def contrast(page: webdriver.Chrome, css: str) -> float:
    """WCAG's contrast ratio of an element's text against the page."""
    channels = """
      const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const text = getComputedStyle(document.querySelector(arguments[0])).color;
      return [rgb(text), rgb(getComputedStyle(document.body).backgroundColor)];"""

    def luminance(rgb: list[float]) -> float:
        parts = [c / 255 for c in rgb]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    text, back = map(luminance, page.execute_script(channels, css))
    return (max(text, back) + 0.05) / (min(text, back) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_color_schemes(opened, chromium, scheme):
    chromium.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page = opened("one")
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background.strip("rgba()").split(",")[:3])
    assert (brightness > 600) == (scheme == "light")
    for css in ("main p.lead", "main h2", "#question .question-text", "figcaption .chart-title"):
        assert contrast(page, css) >= 4.5  # WCAG AA for text
