"""Takes a picture of every table's plots: `make lab-pictures`. Needs chromium and chromedriver."""

from __future__ import annotations

import argparse
from pathlib import Path

from browser import open_browser
from selenium.webdriver.common.by import By

WIDTH, HEIGHT = 1100, 1000
# Leaves the plots of one table on the page and returns their height.
ARRANGE = """
  const dots = document.querySelector(`#${arguments[0]} .dots`);
  document.body.replaceChildren(dots);
  document.body.style.padding = "16px";
  return Math.ceil(dots.getBoundingClientRect().height) + 32;
"""


def take(page: Path, folder: Path) -> list[Path]:
    """Writes lab-TABLE.png for every table of `page`, as `codea1 reproduce` wrote it, into `folder`."""
    pictures = []
    with open_browser(WIDTH, HEIGHT) as driver:
        driver.get(page.absolute().as_uri())
        names = [section.get_attribute("id") for section in driver.find_elements(By.CSS_SELECTOR, "main > section")]
        for name in names:
            driver.get(page.absolute().as_uri())
            height = driver.execute_script(ARRANGE, name)
            frame = HEIGHT - driver.execute_script("return window.innerHeight")
            driver.set_window_size(WIDTH, height + frame)
            pictures.append(folder / f"lab-{name}.png")
            driver.save_screenshot(str(pictures[-1]))
            driver.set_window_size(WIDTH, HEIGHT)
    return pictures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for picture in take(options.page, options.folder):
        print(f"{picture}: {picture.stat().st_size:,} bytes")
