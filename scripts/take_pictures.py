"""Takes a picture of a part of a run's report: `make screenshot`. Needs chromium and chromedriver.

python scripts/take_pictures.py RUN PICTURE
"""

import shutil
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from codea1_jax.run.report import build_report

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
REPORT_SIZE = (1280, 1300)
# The held-out curves, and below them programs that tests have killed.
ARRANGE_REPORT = """
  const outcome = document.querySelector("#filters [name=outcome]");
  outcome.value = "killed";
  for (const kind of ["input", "change"]) outcome.dispatchEvent(new Event(kind, {bubbles: true}));
  const others = ".masthead, nav:not(#rollouts nav), .tools, #results, #training, #time, #setup, #rollouts-note," +
    "#evaluation figure:nth-child(n + 4), #question .folds";
  for (const part of document.querySelectorAll(others)) part.remove();
"""


def open_browser(width: int, height: int) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def take_report(run: Path, picture: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, open_browser(*REPORT_SIZE) as driver:
        driver.get(build_report([run], Path(folder, "report.html")).as_uri())
        driver.execute_script(ARRANGE_REPORT)
        driver.save_screenshot(str(picture))


if __name__ == "__main__":
    run, picture = map(Path, sys.argv[1:])
    take_report(run, picture)
