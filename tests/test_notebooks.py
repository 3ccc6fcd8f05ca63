"""The notebooks are stored clean, compile, and run: in real kernels, and that of the judge also as plain code."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from service import running
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


def test_the_notebooks_for_laptops_are_those_that_make_executes():
    commands = subprocess.run(
        ["make", "--dry-run", "notebooks"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert tuple(re.findall(r"notebooks/(\w+)\.ipynb", commands)) == ON_LAPTOPS
    assert {path.stem for path in NOTEBOOKS} == {*ON_LAPTOPS, "colab_tpu"}


def judged(folder: Path, **environment: str) -> str:
    """What the code of judge_answers prints, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-c", code_of("judge_answers")],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_judging_answers_needs_the_judge_alone_and_finds_which_programs_are_right(tmp_path: Path):
    imported = [node for node in ast.walk(ast.parse(code_of("judge_answers"))) if isinstance(node, ast.ImportFrom)]
    assert {str(node.module).partition(".")[0] for node in imported} - sys.stdlib_module_names == {"codea1_judge"}
    printed = judged(tmp_path)
    assert re.findall(r"^(.+): (\d) of (\d) passed$", printed, re.MULTILINE) == [
        ("right", "4", "4"),
        ("unsorted", "2", "4"),
        *((name, "0", "1") for name in ("exits early", "equals everything", "never ends")),
        *((name, "0", "1") for name in ("takes all memory", "reads your files")),
    ]
    assert re.findall(r"-> '.*' +(\w+)$", printed, re.MULTILINE) == ["passed", "passed", "failed", "raised"]
    assert "right: passed\nunsorted: failed\nexits early: crashed\n" in printed
    # Two of six are right: of the 15 pairs 6 hold none of them, of the 15 fours 1.
    assert f"pass@1 = {2 / 6:.3f}\npass@2 = {9 / 15:.3f}\npass@4 = {14 / 15:.3f}\n" in printed
    assert printed.endswith("skipped: OPENAI_BASE_URL is not set\n")


def test_answers_of_a_served_model_are_judged_if_the_environment_names_one(tmp_path: Path):
    asked: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append({"token": request.headers["Authorization"], **await request.json()})
        programs = ["import statistics\ndef median(xs): return statistics.median(xs)", "def median(xs): return xs[0]"]
        choices = [{"message": {"role": "assistant", "content": f"```python\n{program}\n```"}} for program in programs]
        return web.json_response({"choices": choices})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    with running(app) as address:
        named = {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_MODEL": "mine", "OPENAI_API_KEY": "key"}
        printed = judged(tmp_path, **named)
    assert printed.endswith("1 of 2 answers are right\npass@1 = 0.500\npass@2 = 1.000\n")
    assert [(each["model"], each["n"], each["token"]) for each in asked] == [("mine", 8, "Bearer key")]
    assert "median" in asked[0]["messages"][0]["content"]


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
