"""Coverage measured through the jail is what coverage.py measures of the same calls in an ordinary process."""

import json
import textwrap

import coverage
import pytest

from codea1_jax.evals.coverage import Coverage, measure, submit_coverage
from codea1_jax.game.suites import extract_suite
from data_pipeline.reading import read
from sandbox import SandboxPool

PROGRAM = textwrap.dedent(
    '''
    """A module."""
    import math

    def numbers(n):
        """A generator."""
        for i in range(n):
            if i == 3:
                return
            yield i

    class Bag:
        def __init__(self, items):
            self.items = [item for item in items if item]

    @staticmethod
    def unused():
        return 1

    def f(x):
        try:
            total = sum(numbers(x))
            if total > 2 and x != 5: return math.floor(total)
            while total < 1:
                total += 1
            else:
                total -= 1
        except TypeError:
            return len(Bag(x).items)
        finally:
            x = None
        assert total >= 0
        return {key: value for key, value in zip("ab", (total, 1))}
    '''
)
CALLS = ["f(1)", "f(5)", "f([1, 0])", "f(4)", "f(0)", "f({})", "f(None, 1)"]


def by_coverage(folder, program, calls):
    source, report = folder / "solution.py", folder / "report.json"
    source.write_text(program)
    measured = coverage.Coverage(data_file=None, branch=True, config_file=False, messages=False, include=[str(source)])
    with measured.collect():
        names: dict = {"__name__": "solution"}
        exec(compile(program, str(source), "exec"), names)
        for call in calls:
            try:
                eval(call, names)
            except Exception:  # noqa: BLE001  (whatever the function raises)
                continue
    measured.json_report(morfs=[str(source)], outfile=str(report))
    totals = json.loads(report.read_text())["totals"]
    branches = totals["covered_branches"] / totals["num_branches"] if totals["num_branches"] else 1.0
    return Coverage(totals["covered_lines"] / totals["num_statements"], branches)


@pytest.mark.parametrize("count", range(len(CALLS) + 1))
def test_shares_are_those_of_coverage_py(pool, tmp_path, count):
    ours = submit_coverage(pool, PROGRAM, CALLS[:count])()
    assert ours == by_coverage(tmp_path, PROGRAM, CALLS[:count])
    assert 0 < ours.lines < 1


def test_a_call_that_dies_costs_only_itself_and_a_program_without_branches_has_all_of_them(pool):
    program = "import os\n\ndef f(x):\n    return os._exit(0) if x else 1"
    assert submit_coverage(pool, program, ["f(0)", "f(1)"])() == Coverage(1.0, 1.0)


STEP = "{}\ndef f(x):{}\n    if x > 0:{}\n        return 1{}\n    return 0"
EXCUSES = {
    "the function": ("", "  # pragma: no cover", "", ""),
    "a branch": ("", "", "  # pragma: no branch", ""),
    "a branch and what is in it": ("", "", "  # pragma: no cover", ""),
    "a constant test in a comment": ("", "", "  # if True:", ""),
    "a line": ("", "", "", "  # pragma: no cover"),
    "an encoding that does not exist": ("# coding: nothing-like-it", "", "", ""),
}


@pytest.mark.parametrize("name", EXCUSES)
def test_no_comment_changes_a_figure(pool, name):
    program = STEP.format(*EXCUSES[name])
    assert submit_coverage(pool, program, [])() == Coverage(1 / 4, 0.0)
    assert submit_coverage(pool, program, ["f(0)"])() == Coverage(3 / 4, 1 / 2)
    assert submit_coverage(pool, program, ["f(0)", "f(1)"])() == Coverage(1.0, 1.0)
    if "coding" not in program:
        assert measure(program, [(-1, 2), (2, -1), (-2, 3), (3, 5), (5, -2)]) == Coverage(3 / 4, 1 / 2)


def test_what_coverage_py_leaves_out_by_default_counts():
    checking = "if TYPE_CHECKING:\n    import math\ndef f(x): ...\n"
    assert measure(checking, [(-1, 1), (1, 3), (3, -1)]) == Coverage(2 / 3, 1 / 2)
    assert measure("while True:\n    if x:\n        break\n", [(-1, 1), (1, 2), (2, 1)]) == Coverage(2 / 3, 1 / 2)


@pytest.mark.parametrize("program", ["", "# nothing", "\n\n"])
def test_of_a_program_without_a_line_all_of_them_are_run(program):
    assert measure(program, []) == Coverage(1.0, 1.0)


def test_all_jumps_of_a_long_function_are_told(pool, tmp_path):
    program = "def f(x):\n" + "".join(f"    if x != {i}:\n        x += 1\n" for i in range(1_200)) + "    return x"
    ours = submit_coverage(pool, program, ["f(0)", "f(-1)"])()
    assert ours == by_coverage(tmp_path, program, ["f(0)", "f(-1)"])
    assert ours.lines > 0.99


# Some functions write "\d" where they mean a raw string.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_shares_of_a_benchmarks_functions_are_those_of_coverage_py(some_rows, tmp_path):
    files, some = some_rows
    everything = read(files.unleaked).problems[:: 12 if some else 1]
    chosen = [problem for problem in everything if "random" not in problem.solution]  # dice fall as they like
    calls = {p: [t.call for t in extract_suite("\n".join(p.golden_tests), p.entry_point).tests] for p in chosen}
    with SandboxPool(workers=2) as pool:
        pending = [submit_coverage(pool, problem.solution, calls[problem]) for problem in chosen]
        ours = [shares() for shares in pending]
    assert ours == [by_coverage(tmp_path, problem.solution, calls[problem]) for problem in chosen]
