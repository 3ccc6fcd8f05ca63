"""The documentation builds, its links and commands work, and it agrees with the code."""

import ast
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from packaging.requirements import Requirement
from tiny_run import ROOT

from codea1_jax import cli
from codea1_jax.config import Config, load
from launch import cli as launch_cli
from scripts import write_config_reference, write_third_party

DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Other programs: the shell only has to parse these commands.
FOREIGN = {
    *("codea1-judge", "curl", "docker", "evalplus.evaluate", "gcloud", "gcluster", "kubectl", "pre-commit", "pytest"),
    *("sbatch", "xpk"),
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    """Every command of every page as the shell parses it: the programs on PATH only record their arguments."""
    folder = tmp_path_factory.mktemp("shell")
    for place in (".venv/bin", "elsewhere/bin", "bin"):
        (folder / place).mkdir(parents=True)
        for name in ("codea1", "make", "pip", "uv", "python", "python3", *FOREIGN):
            program = folder / place / name
            program.write_text(
                f"#!{shutil.which('bash')}\nprintf '%s\\0' \"${{0##*/}}\" \"$@\" '\n' >>{folder}/calls\n"
            )
            program.chmod(0o755)
    (folder / ".venv/bin/activate").touch()
    for page in PAGES:
        script = "set -eu\n" + "\n".join(body for kind, body in FENCE.findall(page.read_text()) if kind == "bash")
        done = subprocess.run(
            [str(shutil.which("bash")), "-c", script],
            cwd=folder,
            env={"PATH": str(folder / "bin")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{page}: {done.stderr}"
    calls = [tuple(line.split("\0")[:-1]) for line in (folder / "calls").read_text().split("\n\0")[:-1]]
    handed_on = [tuple(shlex.split(call[-1])[1:]) for call in calls if call[-1].startswith("exec ")]
    return list(dict.fromkeys([*calls, *handed_on]))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the pages mention: questions, and what `codea1 init` writes."""
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "problems.jsonl", tmp_path / "docs")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text("compose: [1.5b/a1_h100x1]\ndata: {source: questions.jsonl}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("codea1_jax.cli._output.log_to_stderr", lambda *_: None)
    return tmp_path


def test_every_block_names_its_language():
    for page in PAGES:
        assert "" not in [kind for kind, _ in FENCE.findall(page.read_text())], page


def test_every_codea1_command_is_parsed_and_every_training_one_dry_run(commands, elsewhere):
    ours = [words[1:] for words in commands if words[0] == "codea1"]
    assert ours
    for words in ours:
        if words[0] in ("train", "reproduce"):
            assert cli.main([*(word for word in words if word != "--dry-run"), "--dry-run"]) == 0, words
        else:
            options = cli._parse(words)
            if "overrides" in options and options.preset:
                load(Config, options.preset, options.overrides)


def test_every_launch_can_be_dry_run(commands, elsewhere, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    launches = [words[3:] for words in commands if words[:3] == ("python", "-m", "launch")]
    assert launches
    for words in launches:
        platform, *arguments = (word for word in words if word != "--dry-run")
        assert launch_cli.main([platform, "--dry-run", *arguments]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out.strip()


def test_every_make_target_and_every_other_program_exists(commands):
    for words in commands:
        match words:
            case ("codea1", *_) | ("python" | "python3", "-m", "launch" | "venv", *_):
                pass
            case ("make", *targets):
                subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)
            case ("python", "-c", _):  # run by tests/cli/test_cli_init.py
                pass
            case ("pip", *rest) | ("uv", "pip", *rest):
                assert rest[0] == "install"
                _check_install(rest[1:])
            case (program, *_):
                assert program in FOREIGN, words


def _check_install(arguments: Sequence[str]) -> None:
    """The extras and files that an install command names exist."""
    extras = set(importlib.metadata.metadata("codea1-jax").get_all("Provides-Extra") or ())
    for argument in arguments:
        if argument.startswith("requirements/"):
            assert (ROOT / argument).is_file()
        elif not argument.startswith(("-", "dist/", "./judge")):
            named = argument.replace(".[", "codea1-jax[", 1)
            assert Requirement(named).name == "codea1-jax" and Requirement(named).extras <= extras, argument


def test_commands_named_in_the_text_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = FENCE.sub("", page.read_text())
        for word in re.findall(r"`codea1 ([a-z]+)", text):
            assert word in cli.COMMANDS, f"{page}: codea1 {word}"
        for word in re.findall(r"`make ([a-z-]+)", text):
            assert word in targets, f"{page}: make {word}"


# --- agreement with the code ---------------------------------------------------------------------------------------


def test_what_pages_notebooks_and_examples_import_of_this_project_exists():
    python = r"```python\n(.*?)```"
    shown = "\n".join(block for page in PAGES for block in re.findall(python, page.read_text(), re.DOTALL))
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        shown += "\n" + "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    ours = r"^from ((?:codea1|data_pipeline|sandbox)\S*) import (.+)$"
    imports = re.findall(ours, "\n".join([shown, *(e.read_text() for e in ROOT.glob("examples/*.py"))]), re.MULTILINE)
    assert len(imports) > 10
    for module, names in imports:
        for name in names.strip("()").split(", "):
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_the_configuration_reference_is_current():
    page = write_config_reference.page()
    assert (DOCS / "configuration.md").read_text() == page, "run: make docs"


def test_every_installed_package_is_among_the_notices():
    listed = set(
        re.findall(r"^\| ([\w.-]+) \| .+ \| (?:indirect)?", (ROOT / "THIRD_PARTY.md").read_text(), re.MULTILINE)
    )
    needed = set().union(*(write_third_party._required("codea1-jax", extra) for extra in write_third_party.EXTRAS))
    assert {name for name, _ in needed} <= listed, "run: make notices"


# --- imports between packages ----------------------------------------------------------------------------------


def test_packages_import_only_what_is_below_them_in_the_architecture_table():
    rows = re.findall(r"^\| `codea1_jax/(\w+)(?:/|\.py)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    parts = {path.stem for path in (ROOT / "codea1_jax").iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert (set(rows), len(rows)) == (parts, len(parts))
    found = {(part, other) for part in parts for other in _imported(ROOT / "codea1_jax", part) & parts - {part}}
    assert {(part, other) for part, other in found if rows.index(other) < rows.index(part)} == set()


def test_data_and_execution_import_nothing_from_the_method():
    assert "codea1_jax" not in _imported(ROOT, "data_pipeline") | _imported(ROOT, "sandbox")
    assert "data_pipeline" not in _imported(ROOT, "sandbox")
    assert "codea1_jax" not in _imported(ROOT, "codea1_judge")
    assert "codea1_judge" not in _imported(ROOT, "data_pipeline") | _imported(ROOT, "sandbox")


def _imported(folder: Path, part: str) -> set[str]:
    """The parts of `folder` that a package or module in it imports; for the root, packages."""
    files = (folder / part).rglob("*.py") if (folder / part).is_dir() else [folder / f"{part}.py"]
    inside = () if folder == ROOT else (folder.name,)
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]
    split = [tuple(name.split(".")) for name in names]
    return {name[len(inside)] for name in split if name[: len(inside)] == inside and len(name) > len(inside)}


# --- links ----------------------------------------------------------------------------------------------


def test_the_pages_build_without_warnings_or_broken_links(tmp_path):
    command = (sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", str(DOCS), str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["README.md", "BENCHMARKS.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_documentation_lead_to_files(name):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", page.read_text(), re.MULTILINE):
        address = urldefrag("".join(target))[0]
        if address and not address.startswith(("http:", "https:")):
            assert (page.parent / address).exists(), address
