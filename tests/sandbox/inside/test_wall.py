"""What runs in the jail is one folder: it needs nothing else of this project, and nothing else is carried in."""

import ast
import subprocess
import sys
from pathlib import Path

import sandbox.inside
from sandbox import Job, SandboxPool
from sandbox.host.boot import boot_text

FOLDER = Path(sandbox.inside.__file__).parent
MODULES = {path.stem: path for path in FOLDER.glob("*.py") if path.stem != "__init__"}
CARRIED = ["sandbox", "sandbox.inside", *sorted(f"sandbox.inside.{name}" for name in MODULES)]


def imported(source: str) -> set[str]:
    """The modules that a text imports, by their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module="sandbox.inside", names=names):
                found |= {f"sandbox.inside.{alias.name}" for alias in names}
            case ast.ImportFrom(module=module, level=level):
                found.add("." * level + (module or ""))
    return found


def test_inside_imports_nothing_but_itself_and_the_standard_library():
    own = {f"sandbox.inside.{name}" for name in MODULES}
    for name, path in MODULES.items():
        others = imported(path.read_text()) - own
        assert {other.partition(".")[0] for other in others} <= sys.stdlib_module_names, name


def test_inside_is_modules_alone_and_its_package_holds_no_code():
    assert {path.name for path in FOLDER.iterdir()} - {"__pycache__"} == {f"{name}.py" for name in MODULES} | {
        "__init__.py"
    }
    (docstring,) = ast.parse((FOLDER / "__init__.py").read_text()).body
    assert isinstance(docstring, ast.Expr)


def test_the_boot_text_carries_exactly_that_folder(tmp_path):
    # In an empty folder, without site-packages: what is not carried cannot be imported.
    text = boot_text("print(*sorted(name for name in sys.modules if name.startswith('sandbox')))")
    command = [sys.executable, "-I", "-S", "-"]
    done = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == CARRIED


def test_a_jailed_process_holds_exactly_that_folder(jail: SandboxPool):
    program = "import sys\ndef f():\n    return sorted(name for name in sys.modules if name.startswith('sandbox'))"
    (execution,) = jail.execute([Job(program, ("f()",))])
    assert ast.literal_eval(execution.outcomes[0].value or "") == CARRIED
