"""Takes a picture of a run's report: `make screenshot RUN=runs/demo`. Needs chromium and chromedriver."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from browser import open_browser

from codea1_jax.report import build_report

SIZE = (1280, 1460)
# The held-out curves, and below them programs that tests have killed.
ARRANGE = """
  const outcome = document.querySelector("#filters [name=outcome]");
  outcome.value = "killed";
  for (const kind of ["input", "change"]) outcome.dispatchEvent(new Event(kind, {bubbles: true}));
  const others = "nav:not(#rollouts nav), #results, #training, #time, #setup, #rollouts-note, #question .folds";
  for (const part of document.querySelectorAll(others)) part.remove();
"""


def take(run: Path, picture: Path) -> None:
    """Builds the run's report afresh, elsewhere, and writes a part of it to `picture`."""
    with tempfile.TemporaryDirectory() as folder:
        page = build_report([run], Path(folder, "report.html"))
        with open_browser(*SIZE) as driver:
            driver.get(page.as_uri())
            driver.execute_script(ARRANGE)
            driver.save_screenshot(str(picture))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    take(options.run, options.picture)
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")
