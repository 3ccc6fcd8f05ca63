"""The report in a real browser: what one sees, clicks and types. Nothing is loaded from elsewhere or complains."""

import csv
import io
import json
import re
import shutil
import statistics
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree

import pytest
from example_run import STEP_SECONDS, write_example_run
from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from codea1_jax.run.report import build_report

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
    """Clicks; again where the page, which grows while its charts are drawn, moved the place away."""

    def clicked() -> bool:
        driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", one(driver, css))
        try:
            one(driver, css).click()
        except ElementClickInterceptedException:
            return False
        return True

    wait_until(driver, clicked)


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
    lines = every(page, "#training .charts svg[role=img] path.line")
    assert len(every(page, "#training path.band")) == len(lines) / 2  # the other half is of the method with one seed
    assert " vs " in one(page, "#title").text


def chart(page: webdriver.Chrome, title: str) -> WebElement:
    (found,) = [each for each in every(page, "figure.chart") if each.text.startswith(title)]
    return found


def steps_of(figure: WebElement) -> tuple[int, int]:
    plot = figure.find_element(By.CSS_SELECTOR, ".plot")
    low, high = (plot.get_attribute(f"aria-value{end}") for end in ("min", "max"))
    return int(str(low)), int(str(high))


def test_the_timeline_of_a_step_has_its_median_phases_one_after_another_and_the_judge_below(opened, reports):
    lines = [json.loads(line) for line in (reports["one"].parent / "metrics.jsonl").read_text().splitlines()]
    phases = ("generate_code", "generate_tests", "judge_wait", "update_code", "update_test", "judge_hidden")
    seconds = {
        phase: statistics.median(line[f"seconds/{phase}"] for line in lines if line["kind"] == "train")
        for phase in phases
    }
    hidden = seconds.pop("judge_hidden")
    steps = [line["seconds/step"] for line in lines if line["kind"] == "train"]
    seconds["between steps"] = statistics.median(STEP_SECONDS - step for step in steps[1:])
    total = sum(seconds.values())
    ends = list(accumulate(seconds.values(), initial=0.0))
    suites_end = ends[2]
    expected = [
        *zip(ends, seconds.values(), strict=False),
        (suites_end - hidden, hidden),
        (suites_end, seconds["judge_wait"]),
    ]
    page = opened("one")
    bars = every(page, "figure.timeline rect.area")[: len(expected)]  # then those of the legend
    places = [[float(str(bar.get_attribute(name)).rstrip("%")) for name in ("x", "width")] for bar in bars]
    assert places == [pytest.approx([100 * start / total, 100 * took / total], abs=0.01) for start, took in expected]
    tops = [float(str(bar.get_attribute("y"))) for bar in bars]
    assert len(set(tops[:6])) == len(set(tops[6:])) == 1
    assert tops[0] < tops[6]


def test_an_evaluation_has_its_interval_as_a_band_and_in_words(opened):
    page = opened("one")
    figure = chart(page, "Test LLM: validity and kill rate")
    assert len(figure.find_elements(By.CSS_SELECTOR, "path.band")) == 2
    value, low, high = map(float, re.findall(r"[\d.]+", figure.find_element(By.CSS_SELECTOR, "output").text))
    assert (value - low, high - value) == pytest.approx((4, 3), abs=0.11)  # as they are rounded
    assert not any("_low" in title or "_high" in title for title in every_title(page))


def every_title(page: webdriver.Chrome) -> list[str]:
    return [str(title.get_attribute("textContent")) for title in every(page, ".chart-title")]


def test_numbers_and_dragging_zoom_into_all_charts_and_escape_shows_everything_again(opened):
    page = opened("one")
    figure = chart(page, "Rewards")
    one(page, "#tools [name=from]").send_keys("30", Keys.ENTER)
    assert steps_of(figure) == (30, 40)
    press(page, "#tools button")
    assert steps_of(figure) == (1, 40)
    page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", figure)
    plot = figure.find_element(By.CSS_SELECTOR, ".plot")
    width = plot.rect["width"]
    drag = ActionChains(page).move_to_element_with_offset(plot, int(-0.2 * width), 0).click_and_hold()
    drag.move_by_offset(int(0.3 * width), 0).release().perform()
    low, high = steps_of(figure)
    assert 1 < low < high < 40
    assert steps_of(chart(page, "Entropy")) == (low, high)
    assert [one(page, f"#tools [name={end}]").get_attribute("value") for end in ("from", "to")] == [str(low), str(high)]
    page.execute_script("arguments[0].focus()", plot)
    plot.send_keys(Keys.ESCAPE)
    assert steps_of(figure) == (1, 40)
    last = figure.find_element(By.CSS_SELECTOR, ".chart-step").text
    plot.send_keys(Keys.ARROW_LEFT)
    assert figure.find_element(By.CSS_SELECTOR, ".chart-step").text not in ("", last)


def test_smoothing_changes_what_is_drawn_but_not_what_is_read(opened):
    page = opened("one")
    figure = chart(page, "Rewards")
    before = figure.find_element(By.CSS_SELECTOR, ".plot path.line").get_attribute("d")
    reading = figure.find_element(By.CSS_SELECTOR, "output").text
    page.execute_script(
        "const slider = arguments[0]; slider.value = 0.9; slider.dispatchEvent(new Event('input'))",
        one(page, "#tools [name=smoothing]"),
    )
    lines = figure.find_elements(By.CSS_SELECTOR, ".plot .series-1 path.line")
    raw, smooth = (line.get_attribute("d") for line in lines)
    assert raw == before != smooth
    assert figure.find_element(By.CSS_SELECTOR, "output").text == reading


def test_the_legend_switches_series_off_and_on(opened):
    page = opened("one")
    figure = chart(page, "Rewards")
    first = figure.find_elements(By.CSS_SELECTOR, ".legend button")[0]
    page.execute_script("arguments[0].click()", first)
    assert first.get_attribute("aria-pressed") == "false"
    assert not figure.find_elements(By.CSS_SELECTOR, ".plot .series-1")
    assert figure.find_elements(By.CSS_SELECTOR, ".plot .series-2")
    page.execute_script("arguments[0].click()", first)
    assert figure.find_elements(By.CSS_SELECTOR, ".plot .series-1")


# What a click would save, instead of a download.
SAVED = Path(__file__).with_name("saved.js").read_text()


def test_a_chart_is_saved_as_figures_and_as_a_picture(opened, reports):
    page = opened("one")
    files = dict(page.execute_async_script(SAVED, chart(page, "Test LLM: validity and kill rate")))
    figures, picture = (f"test-llm-validity-and-kill-rate.{form}" for form in ("csv", "svg"))
    assert list(files) == [figures, picture, "figures.csv"]
    logged = [json.loads(line) for line in (reports["one"].parent / "metrics.jsonl").read_text().splitlines()]
    first = next(line for line in logged if line["kind"] == "eval")
    row = next(csv.DictReader(io.StringIO(files[figures])))
    assert list(row) == ["step"] + [
        f"{name}{end}" for name in ("validity", "kill rate") for end in ("", " low", " high")
    ]
    assert float(row["validity low"]) == pytest.approx(first["eval/test_validity_low"], rel=1e-5)
    svg = "{http://www.w3.org/2000/svg}"
    drawing = ElementTree.fromstring(files[picture].encode())
    strokes = {node.get("stroke", "none") for node in drawing.iter(f"{svg}path")} - {"none"}
    assert len(strokes) >= 2 and all(stroke.startswith("rgb") for stroke in strokes)
    texts = {node.text for node in drawing.iter(f"{svg}text")}
    assert {"Test LLM: validity and kill rate", "validity", "kill rate", "percent"} <= texts
    everything = list(csv.DictReader(io.StringIO(files["figures.csv"])))
    assert len(everything) == sum(
        isinstance(x, float) and name != "time" for line in logged for name, x in line.items()
    )


def test_filters_narrow_the_list_and_clear_restores_it(opened):
    page = opened("one")
    everything = questions(page)
    choose(page, "outcome", "killed")
    cards = every(page, "#question .card")
    assert cards
    assert all("killed" in str(card.get_attribute("class")) or "killed" in card.text.lower() for card in cards)
    choose(page, "outcome", "survived")
    assert 0 < questions(page) <= everything
    assert all("killed" not in str(sign.get_attribute("class")) for sign in every(page, "#question-list .strip span"))
    one(page, "#filters [name=text]").send_keys("no question says this")
    assert questions(page) == 0
    assert "No program matches" in one(page, "#question").text
    press(page, "#filters button.plain")
    assert questions(page) == everything


def test_the_keyboard_walks_through_questions_and_steps_and_each_place_is_an_address(opened):
    page = opened("one")
    first = one(page, "#question .question-text").text
    one(page, "body").send_keys("j")
    wait_for_another(page, "#question .question-text", first)
    there, second = page.current_url, one(page, "#question .question-text").text
    one(page, "body").send_keys("k")
    wait_until(page, lambda: one(page, "#question .question-text").text == first)
    step = one(page, "#question .eyebrow").text
    one(page, "body").send_keys("[")
    wait_for_another(page, "#question .eyebrow", step)
    one(page, "body").send_keys("n")
    assert page.switch_to.active_element.tag_name == "summary"
    opened("one", place="#" + there.partition("#")[2])
    assert one(page, "#question .question-text").text == second


def test_hostile_text_stays_text(opened):
    page = opened("one")
    assert page.execute_script("return [...document.images, ...document.querySelectorAll('main script')].length") == 0
    assert page.execute_script("return document.querySelector('main').textContent.includes('</script><script>')")


@pytest.mark.parametrize("name", ["one", "several"])
def test_a_phone_scrolls_the_page_in_one_direction_only(opened, name):
    page = opened(name, PHONE)
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    assert one(page, "figure.chart svg[role=img]").rect["width"] <= PHONE[0]
    links = every(page, ".sections a")
    assert all(link.rect["x"] >= 0 and link.rect["x"] + link.rect["width"] <= PHONE[0] for link in links)
    assert [link.text for link in links] == ["Results", "Held-out", "Training", "Time", "Rollouts", "Setup"]
