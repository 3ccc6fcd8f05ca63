"""Takes a picture of every table's plots: `make lab-pictures`. Needs chromium and chromedriver."""

from __future__ import annotations

import argparse
from pathlib import Path

from browser import open_browser
from selenium.webdriver.common.by import By

SIZE = (1100, 4000)


def take(page: Path, folder: Path) -> list[Path]:
    """Writes lab-TABLE.png for every table of `page`, as `codea1 reproduce` wrote it, into `folder`."""
    pictures = []
    with open_browser(*SIZE) as driver:
        driver.get(page.absolute().as_uri())
        for section in driver.find_elements(By.CSS_SELECTOR, "main > section"):
            pictures.append(folder / f"lab-{section.get_attribute('id')}.png")
            section.find_element(By.CLASS_NAME, "dots").screenshot(str(pictures[-1]))
    return pictures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for picture in take(options.page, options.folder):
        print(f"{picture}: {picture.stat().st_size:,} bytes")
