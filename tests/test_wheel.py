"""What others install: everything that a run needs is in the wheel, and it runs far from the repository."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from tiny_run import SETTINGS

ROOT = Path(__file__).parent.parent
PACKAGES = ("codea1_jax", "codea1_judge", "configs", "data_pipeline", "sandbox")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: building leaves files behind."""
    copy = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY.md"):
        shutil.copy(ROOT / name, copy)
    # From a source distribution, as `python -m build` makes it: what that leaves out is also missing in the wheel.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (copy / "dist").glob("*.whl")
    return path


def test_the_wheel_holds_every_preset_template_and_type_marker_as_it_is_here(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    copy = wheel.parent.parent
    files = (path for package in PACKAGES for path in (copy / package).rglob("*") if path.is_file())
    here = {path.relative_to(copy).as_posix(): path.read_bytes() for path in files}
    assert inside.keys() == here.keys()
    assert inside == here
    assert {"configs/micro/a1_paper.yaml", "configs/parts/methods/a1.yaml", "configs/parts/micro.yaml"} < inside.keys()
    assert {f"{package}/py.typed" for package in PACKAGES} < inside.keys()
    assert {Path(name).suffix for name in inside} >= {".py", ".yaml", ".html", ".css", ".js"}


def test_the_wheel_says_its_version_and_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(name).decode())
        licences = [name for name in archive.namelist() if "/licenses/" in name]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert about["Version"] == project["version"]
    assert about["License-Expression"] == "Apache-2.0"
    assert {Path(name).name for name in licences} == {"LICENSE", "THIRD_PARTY.md"}


@pytest.mark.long
def test_a_wheel_in_an_empty_environment_trains_without_the_repository(wheel, tmp_path):
    uv = Path(sys.executable).with_name("uv")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    environment |= {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax")}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(str(uv), "venv", "--python", sys.executable, "venv")
    run(str(uv), "pip", "install", "--python", "venv", "--constraint", str(ROOT / "requirements/lock.txt"), str(wheel))
    python, codea1 = str(tmp_path / "venv/bin/python"), str(tmp_path / "venv/bin/codea1")
    assert run(python, "-c", "import codea1_jax; print(codea1_jax.__file__)").startswith(str(tmp_path))
    assert "micro/a1" in run(codea1, "presets", "micro").split()
    assert run(codea1, "--version").strip() == wheel.name.split("-")[1]
    small = ("train.steps=1", "warm_start.steps=20", "warm_start_cache=cache", "run.directory=run")
    run(codea1, "train", "micro/a1", *SETTINGS, *small)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "<script>" in report and "codea1-jax" in report
