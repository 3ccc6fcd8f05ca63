"""The difference between two rows of a table, paired by seed: `python scripts/compare_rows.py code a1 self_play`.

Prints every figure's mean difference with its 95% interval, and each seed's own.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from codea1_jax.reproduce.experiments import tables
from codea1_jax.reproduce.micro_lab import MicroLab
from codea1_jax.reproduce.published import extensions, published
from codea1_jax.reproduce.results import read_table
from codea1_jax.reproduce.write import spelled
from configs import MICROS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("row")
    parser.add_argument("other")
    parser.add_argument("--model", choices=MICROS, default=MICROS[0])
    parser.add_argument("--lab", type=Path, default=Path("runs/lab"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    lab = MicroLab(options.lab, model=options.model)
    papers = lab.shown(published() | extensions())
    table = tables(lab, papers)[options.table]
    rows = {row.name: row for row in table.rows}
    pair = replace(table, rows=(rows[options.other], rows[options.row]))  # differences are to the first row

    def differences(*seeds: int) -> dict[str, str]:
        """By column, where both rows have the figure."""
        _, line = read_table(pair, seeds, papers[options.table], "micro").lines
        return {
            title: spelled(cell.gain, sign=True)
            for title, cell in zip(pair.columns, line.cells, strict=True)
            if cell is not None and cell.gain is not None
        }

    each = [differences(seed) for seed in range(options.seeds)]
    for title, difference in differences(*range(options.seeds)).items():
        print(f"{title:10} {difference:14} ({', '.join(of_seed[title] for of_seed in each)})")
