"""The documentation builds, its links and commands work, and it agrees with the code."""

import ast
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from packaging.requirements import Requirement
from tiny_run import ROOT

from codea1_jax import cli
from codea1_jax.config import Config, load
from launch import cli as launch_cli
from scripts import write_config_reference, write_third_party

DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "launch" / "README.md", *sorted(DOCS.glob("*.md")))
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# --- how each command in the documentation is tested -----------------------------------------------------

# These are run.
RUN = (
    ("presets",),
    ("doctor",),
    ("doctor", "micro/a1"),
    ("sandbox", "check"),
    ("data", "validate", "docs/problems.jsonl"),
    ("data", "audit", "docs/problems.jsonl"),
)
# Run with --dry-run: `codea1 train`, `codea1 reproduce`, `python -m launch`, and `make` as `make --dry-run`.
# Only parsed, because they need a trained run, a benchmark, a bucket or minutes of compilation; with the test that runs
# each of them.
PARSED = {
    "checkpoint": "tests/cli/test_cli_checkpoint.py",
    "convert": "tests/cli/test_cli_convert.py",
    "data prepare": "tests/cli/test_cli_data.py",
    "data validate": "tests/cli/test_cli_data.py",
    "doctor": "tests/cli/test_cli_doctor.py",
    "init": "tests/cli/test_cli_init.py",
    "selftest": "tests/doctor/test_selftest.py",
    "eval": "tests/cli/test_cli_eval.py",
    "export": "tests/publish/test_export.py",
    "plan": "tests/plan/test_plan.py",
    "push": "tests/publish/test_push.py",
    "rehearse": "tests/doctor/rehearsal/test_stages.py",
    "report": "tests/report/test_report.py",
    "sandbox serve": "tests/cli/test_cli_sandbox.py",
    "serve": "tests/serve/test_serve_http.py",
    "solve": "tests/evals/test_solve.py",
}
# Other programs: the shell only has to parse these commands.
FOREIGN = {
    "codea1-judge",
    "curl",
    "docker",
    "evalplus.evaluate",
    "gcloud",
    "gcluster",
    "kubectl",
    "pre-commit",
    "pytest",
    "xpk",
}
# Modules started with `python -m`.
MODULES = {"venv": "tests/test_wheel.py"}


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
    monkeypatch.setattr("codea1_jax.common.console.log_to_stderr", lambda *_: None)
    return tmp_path


def test_every_block_names_its_language():
    for page in PAGES:
        assert "" not in [kind for kind, _ in FENCE.findall(page.read_text())], page


def test_every_codea1_command_runs_or_dry_runs_or_is_parsed(commands, elsewhere):
    ours = [words[1:] for words in commands if words[0] == "codea1"]
    assert set(RUN) < set(ours)
    for words in ours:
        name = " ".join(words[:2]) if words[0] in ("data", "sandbox") else words[0]
        if words in RUN:
            assert cli.main(words) == 0, words
        elif name in ("train", "reproduce"):
            assert cli.main([*(word for word in words if word != "--dry-run"), "--dry-run"]) == 0, words
        else:
            assert (ROOT / PARSED[name]).is_file()
            options = cli._parse(words)
            if "overrides" in options and options.preset:
                load(Config, options.preset, options.overrides)


def test_no_command_trains_a_pretrained_model_on_the_micro_world_unless_explicit(commands, elsewhere, capsys):
    """Checks the commands of the pages, and those that `reproduce` prints for a real size."""
    chosen = [_preset_of(words) for words in commands]
    for model in ("1.5b", "3b", "7b"):
        assert cli.main(["reproduce", "all", "--model", model, "--dry-run"]) == 0
        printed = [shlex.split(line, comments=True) for line in capsys.readouterr().out.splitlines()]
        assert printed[0] == ["codea1", "data", "prepare", "kodcode"]
        chosen += [_preset_of(words) for words in printed]
    real = 0
    for preset, overrides in filter(None, chosen):
        config = load(Config, preset, overrides)
        real += config.model.pretrained is not None
        explicit = preset.startswith("smollm2-135m/") or "data.source=micro" in overrides
        assert config.model.pretrained is None or config.data.source != "micro" or explicit
    assert real > 60


def _preset_of(words: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The preset that a command names, with its overrides."""
    if words[0] == "codea1":
        options = cli._parse(words[1:])
    elif words[:3] == ("python", "-m", "launch"):
        options = launch_cli.parser_of(words[3]).parse_intermixed_args(words[4:])
    else:
        return None
    preset = getattr(options, "preset", None)
    return None if preset is None else (preset, options.overrides)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prepares_data_before_it_trains_a_real_model(page):
    """Dry runs, plans and tests of a machine do not need data."""
    text = FENCE.sub(lambda block: block[0].replace("\\\n", " "), page.read_text())
    trains = re.compile(
        r"^(codea1 train|python -m launch \w+ (up|check|start) \S+) (1\.5b|3b|7b)/(?!.*--(dry-run|selftest))", re.M
    )
    first = trains.search(text)
    assert first is None or "codea1 data prepare kodcode\n" in text[: first.start()]


def test_every_launch_can_be_dry_run(commands, elsewhere, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    launches = [words[3:] for words in commands if words[:3] == ("python", "-m", "launch")]
    assert {words[0] for words in launches} == {"tpu", "gke", "slurm"}
    for words in launches:
        platform, *arguments = (word for word in words if word != "--dry-run")
        assert launch_cli.main([platform, "--dry-run", *arguments]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out.strip()


def test_every_make_target_and_every_other_program_exists(commands):
    modules = set()
    for words in commands:
        match words:
            case ("codea1", *_) | ("python", "-m", "launch", *_):
                pass
            case ("make", *targets):
                subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)
            case ("python", "-c", _):  # run by tests/cli/test_cli_init.py
                pass
            case ("python" | "python3", "-m", module, *_):
                modules.add(module)
            case ("pip", *rest) | ("uv", "pip", *rest):
                assert rest[0] == "install"
                _check_install(rest[1:])
            case (program, *_):
                assert program in FOREIGN, words
    assert modules == MODULES.keys()
    assert all((ROOT / test).is_file() for test in MODULES.values())


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
    parser_commands = {module.__name__.rpartition(".")[2] for module in cli.COMMANDS}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = FENCE.sub("", page.read_text())
        for word in re.findall(r"`codea1 ([a-z]+)", text):
            assert word in parser_commands, f"{page}: codea1 {word}"
        for word in re.findall(r"`make ([a-z-]+)", text):
            assert word in targets, f"{page}: make {word}"


# --- agreement with the code ---------------------------------------------------------------------------------------


def test_the_configuration_reference_is_current():
    page = write_config_reference.page()
    assert (DOCS / "configuration.md").read_text() == page, "run: make docs"
    assert set(_keys(Config.model_json_schema())) == set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))


def _keys(schema: dict, node: dict | None = None, prefix: str = "") -> Iterator[str]:
    """Every key of the configuration, according to pydantic; sections that are alike, such as code and test, once."""
    node, seen = schema if node is None else node, set()
    for name, field in node["properties"].items():
        (reference,) = [each["$ref"] for each in (field, *field.get("anyOf", ())) if "$ref" in each] or [None]
        if reference in seen:
            continue
        if reference is None:
            yield prefix + name
        else:
            seen.add(reference)
            yield from _keys(schema, schema["$defs"][reference.rpartition("/")[2]], f"{prefix}{name}.")


def test_every_installed_package_is_among_the_notices():
    listed = set(
        re.findall(r"^\| ([\w.-]+) \| .+ \| (?:indirect)?", (ROOT / "THIRD_PARTY.md").read_text(), re.MULTILINE)
    )
    needed = set().union(*(write_third_party._required("codea1-jax", extra) for extra in write_third_party.EXTRAS))
    assert {name for name, _ in needed} <= listed, "run: make notices"


def test_the_picture_of_a_report_is_small():
    picture = (DOCS / "images" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 200_000


def test_the_citation_is_complete_and_matches_the_readme():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation.keys() >= {"authors", "cff-version", "message", "title"}  # what the format requires
    paper = citation["preferred-citation"]
    readme = (ROOT / "README.md").read_text()
    assert paper["title"] in readme and paper["identifiers"][0]["value"] in readme
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in readme


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


class _Links(HTMLParser):
    """A page's anchors and link targets."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value and tag != "link":
                self.targets.append(value)


def test_the_pages_build_without_warnings_or_broken_links(tmp_path):
    command = (sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", str(DOCS), str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.resolve(): _Links(path) for path in tmp_path.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} <= {path.stem for path in pages}
    for path, page in pages.items():
        for target in page.targets:
            if target.startswith(("http:", "https:", "data:", "mailto:")):
                continue
            address, anchor = urldefrag(unquote(target))
            there = (path.parent / address.partition("?")[0]).resolve() if address else path
            assert there.exists(), f"{path.name}: {target}"
            if anchor and there in pages:
                assert anchor in pages[there].anchors, f"{path.name}: {target}"


@pytest.mark.parametrize("name", ["README.md", "BENCHMARKS.md", "CHANGELOG.md", "launch/README.md"])
def test_links_of_pages_outside_the_documentation_lead_to_files(name):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", page.read_text(), re.MULTILINE):
        address = urldefrag("".join(target))[0]
        if address and not address.startswith(("http:", "https:")):
            assert (page.parent / address).exists(), address
