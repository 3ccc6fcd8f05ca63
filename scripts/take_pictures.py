"""Takes the pictures of docs/images. Needs chromium and chromedriver.

python scripts/take_pictures.py report RUN PICTURE      a part of a run's report: `make screenshot`
python scripts/take_pictures.py tables PAGE PICTURE     plots of the tables of `codea1 reproduce`: `make lab-pictures`
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from codea1_jax.report import build_report

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
REPORT_SIZE = (1280, 1300)
TABLES_SIZE = (1100, 1000)
# The held-out curves, and below them programs that tests have killed.
ARRANGE_REPORT = """
  const outcome = document.querySelector("#filters [name=outcome]");
  outcome.value = "killed";
  for (const kind of ["input", "change"]) outcome.dispatchEvent(new Event(kind, {bubbles: true}));
  const others = ".masthead, nav:not(#rollouts nav), .tools, #results, #training, #time, #setup, #rollouts-note," +
    "#evaluation figure:nth-child(n + 4), #question .folds";
  for (const part of document.querySelectorAll(others)) part.remove();
"""
# Leaves the plots of one table on the page and returns their height.
ARRANGE_TABLE = """
  const dots = document.querySelector(`#${arguments[0]} .dots`);
  document.body.replaceChildren(dots);
  document.body.style.padding = "16px";
  return Math.ceil(dots.getBoundingClientRect().height) + 32;
"""


def open_browser(width: int, height: int) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def take_report(run: Path, picture: Path) -> None:
    """Builds the run's report afresh, elsewhere, and writes a part of it to `picture`."""
    with tempfile.TemporaryDirectory() as folder, open_browser(*REPORT_SIZE) as driver:
        driver.get(build_report([run], Path(folder, "report.html")).as_uri())
        driver.execute_script(ARRANGE_REPORT)
        driver.save_screenshot(str(picture))


def take_tables(page: Path, picture: Path) -> None:
    """Writes PICTURE-TABLE.png for every table of `page`, as `codea1 reproduce` wrote it."""
    width, height = TABLES_SIZE
    with open_browser(width, height) as driver:
        driver.get(page.absolute().as_uri())
        names = [
            section.get_attribute("id")
            for section in driver.find_elements(By.CSS_SELECTOR, "main > section:has(.dots)")
        ]
        for name in names:
            driver.get(page.absolute().as_uri())
            frame = height - driver.execute_script("return window.innerHeight")
            driver.set_window_size(width, driver.execute_script(ARRANGE_TABLE, name) + frame)
            driver.save_screenshot(f"{picture}-{name}.png")
            driver.set_window_size(width, height)


if __name__ == "__main__":
    match sys.argv[1:]:
        case "report", run, picture:
            take_report(Path(run), Path(picture))
        case "tables", page, picture:
            take_tables(Path(page), Path(picture))
        case _:
            sys.exit(__doc__)
