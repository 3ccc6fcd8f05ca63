"""The notebooks are stored clean, compile, and run."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tiny_run import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ON_LAPTOPS = ("first_run", "read_a_run", "judge_answers")  # the second reads the run of the first
MAGIC = re.compile(r"^(\s*)[!%].*$", re.MULTILINE)  # IPython's own lines


def code_of(name: str) -> str:
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_in_format_4_without_outputs_and_its_cells_compile(path: Path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4 and notebook["cells"][0]["cell_type"] == "markdown"
    assert not re.search("/work/|/home/", path.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            compile(MAGIC.sub(r"\1pass", "".join(cell["source"])), path.name, "exec")


def test_judging_answers_needs_the_judge_alone_and_finds_which_programs_are_right(tmp_path: Path):
    imported = [node for node in ast.walk(ast.parse(code_of("judge_answers"))) if isinstance(node, ast.ImportFrom)]
    assert {str(node.module).partition(".")[0] for node in imported} - sys.stdlib_module_names == {"codea1_judge"}
    done = subprocess.run(
        [sys.executable, "-c", code_of("judge_answers")],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(.+): (\d) of (\d) passed$", done.stdout, re.MULTILINE) == [
        ("right", "4", "4"),
        ("unsorted", "2", "4"),
        *((name, "0", "1") for name in ("exits early", "equals everything", "never ends")),
        *((name, "0", "1") for name in ("takes all memory", "reads your files")),
    ]
    assert re.findall(r"-> '.*' +(\w+)$", done.stdout, re.MULTILINE) == ["passed", "passed", "failed", "raised"]
    assert "right: passed\nunsorted: failed\nexits early: crashed\n" in done.stdout
    # Two of six are right: of the 15 pairs 6 hold none of them, of the 15 fours 1.
    assert f"pass@1 = {2 / 6:.3f}\npass@2 = {9 / 15:.3f}\npass@4 = {14 / 15:.3f}\n" in done.stdout
    assert done.stdout.endswith("skipped: OPENAI_BASE_URL is not set\n")


@pytest.mark.long
def test_the_notebooks_for_laptops_run_in_a_kernel(tmp_path: Path):
    """With the extra in a folder of its own, as it is not part of `dev`; in copies, as the runs lie next to them."""
    uv, extra = Path(sys.executable).with_name("uv"), tmp_path / "extra"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["notebooks"]
    lock = ROOT / "requirements" / "lock.txt"
    subprocess.run([uv, "pip", "install", "--quiet", "--target", extra, "--constraint", lock, *needed], check=True)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "problems.jsonl", tmp_path / "docs")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("runs", ".*"))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{extra}", "JAX_PLATFORMS": "cpu"}
    execute = [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace"]
    printed = {}
    for name in ON_LAPTOPS:
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        done = subprocess.run([*execute, path], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", ())]
        shown = [output.get("data", {"text/plain": output.get("text", "")}) for output in outputs]
        printed[name] = "\n".join("".join(each.get("text/plain", "")) for each in shown)
        pictures = sum("image/png" in each for each in shown)
        assert pictures == (name != "judge_answers")
    assert "micro/a1" in printed["first_run"] and "% of the question's tests" in printed["first_run"]
    assert (tmp_path / "notebooks" / "runs" / "first" / "report.html").exists()
    assert "20 steps; 5 evaluations;" in printed["read_a_run"]
    confirmed = re.search(r"(\d+) kills confirmed", printed["read_a_run"])
    assert confirmed and int(confirmed[1]) > 0
