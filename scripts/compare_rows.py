"""The difference between two rows of a table, paired by seed: `python scripts/compare_rows.py code a1 self_play`.

Prints every figure's mean difference with its 95% interval, and each seed's own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from codea1_jax.reproduce.experiments import MicroBudget, micro_tables
from codea1_jax.reproduce.results import figures, mean
from codea1_jax.reproduce.write import spelled

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("row")
    parser.add_argument("other")
    parser.add_argument("--lab", type=Path, default=Path("runs/lab"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    table = micro_tables(MicroBudget(options.lab))[options.table]
    rows = {row.name: [figures(row.command(seed)) for seed in range(options.seeds)] for row in table.rows}
    for title, key in table.columns:
        pairs = zip(rows[options.row], rows[options.other], strict=True)
        differences = [mine[key] - other[key] for mine, other in pairs if key in mine and key in other]
        if differences:
            each = ", ".join(f"{difference:+.1f}" for difference in differences)
            print(f"{title:10} {spelled(mean(differences), sign=True):14} ({each})")
