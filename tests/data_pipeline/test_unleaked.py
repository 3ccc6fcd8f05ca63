"""UnLeakedTestBench's functions run below the header that the reader gives them."""

import re

from codea1_jax.game.suites import extract_suite
from data_pipeline.reading import read
from sandbox import Job, Limits, SandboxPool


def test_functions_run_by_the_header_alone(rows):
    """Of the real ones 15 miss a name without it, and two miss one that the benchmark's own header lacks as well."""
    functions = read(rows.unleaked).problems
    suites = {f: extract_suite("\n".join(f.golden_tests), f.entry_point).tests for f in functions}

    def missing(*, headed: bool) -> dict[str, str]:
        """The names that functions miss, by their ids."""
        jobs = [
            Job(
                f.preamble * headed + f.solution,
                tuple(test.call for test in suites[f]),
                Limits(memory_mb=1024),
                f.entry_point,
            )
            for f in functions
        ]
        details = {f.id: [o.detail for o in e.outcomes] for f, e in zip(functions, pool.execute(jobs), strict=True)}
        names = {key: re.findall(r"NameError: name '(\w+)'", " ".join(lines)) for key, lines in details.items()}
        return {key: each[0] for key, each in names.items() if each}

    ours = (10, {"ULT/7": "logging"}, 3)
    real = (120, {"ULT/785": "logging", "ULT/3934": "sys"}, 15)
    with SandboxPool(workers=2, preload=("numpy",)) as pool:
        assert (len(functions), missing(headed=True), len(missing(headed=False))) in (ours, real)
