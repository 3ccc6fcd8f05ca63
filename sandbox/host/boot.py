"""The text of a program that carries the modules of `sandbox.inside`, so that the jail need not see this package."""

from collections.abc import Sequence
from pathlib import Path

from sandbox import inside

_MODULES = (  # each after those that it imports
    *("plain", "encoding", "observation", "transport", "expressions", "collisions", "inputs", "evaluation", "nodes"),
    *("check_code", "guard", "watch", "checker", "scratch", "stream", "zygote"),
)
_TEXT = """\
import sys, types
sys.path += {folders!r}
sys.modules["sandbox"] = types.ModuleType("sandbox")
inside = sys.modules["sandbox"].inside = sys.modules["sandbox.inside"] = types.ModuleType("sandbox.inside")
for name, text in {modules!r}:
    module = sys.modules["sandbox.inside." + name] = types.ModuleType("sandbox.inside." + name)
    setattr(inside, name, module)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
{start}
"""


def boot_text(start: str, folders: Sequence[str] = ()) -> str:
    texts = [(name, Path(inside.__path__[0], f"{name}.py").read_text()) for name in _MODULES]
    return _TEXT.format(folders=list(folders), modules=texts, start=start)
