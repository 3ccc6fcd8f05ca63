"""Every message by which the code refuses what a user asked for, read from the source."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import sandbox
from codea1_jax.common.errors import UserError
from codea1_jax.config import Section
from codea1_jax.serve.orders import BadRequest, Busy
from data_pipeline.rows import BadRow
from launch.shell import LaunchError
from sandbox import SandboxError

ROOT = Path(__file__).parents[2]
PACKAGES = ("codea1_jax", "codea1_judge", "data_pipeline", "launch", "sandbox")
GAP = "…"

# What the two command lines print as one line, and argparse; what refuses a row of data, or a client of a server.
REFUSALS = (UserError, SandboxError, OSError, FloatingPointError, LaunchError, BadRow, BadRequest, Busy)
ARGPARSE = "argparse.ArgumentTypeError"
# Modules whose ValueErrors are printed behind the name of the option or key that was wrong.
VALUE_ERRORS = {
    *("codea1_jax/models/architecture.py", "codea1_jax/models/families.py"),
    *("codea1_jax/models/policy.py", "codea1_jax/models/tokenizer.py"),
    *("data_pipeline/audit.py", "data_pipeline/hub.py", "data_pipeline/prepare.py", "data_pipeline/rows.py"),
    *("data_pipeline/reading.py", "data_pipeline/storage.py", "data_pipeline/tfds_files.py"),
    *("codea1_judge/judge.py", "codea1_judge/submit.py", "sandbox/remote/run_code.py"),  # or answered by a service
    "codea1_jax/rollout/capacity.py",
    "codea1_jax/rollout/requests.py",
}
# Raised to code, which catches it or was wrong to call: no user's doing.
INTERNAL = {
    "words must be non-empty ASCII, got …",
    *("request …: the prompt is empty", "request …: samples=… must be at least 1"),
    *("request …: limits must be … numbers of at least 1", "length … exceeds the largest bucket …"),
    *(
        "…=… must be ascending positive lengths",
        "…=… must be a multiple of batch_shards=…",
        "pages=… must be at least …, for one longest prompt and response in each of … shards",
        "top_k=… must not be negative",
    ),
    "response_buckets=… must be multiples of block=…",
}


def messages() -> dict[str, str]:
    """Where each message is raised, as file:line; what varies in a message is an ellipsis."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            found |= {text: f"{name}:{line}" for text, line in _raised(name, ast.parse(path.read_text()))}
    return {text: place for text, place in found.items() if _says_something(text) and text not in INTERNAL}


def _raised(name: str, tree: ast.Module) -> Iterator[tuple[str, int]]:
    sections = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        raised = ast.unparse(node.func)
        if raised == "ValueError":
            inside = next((each.name for each in sections if each.lineno <= node.lineno <= (each.end_lineno or 0)), "")
            if name not in VALUE_ERRORS and not _is_section(name, inside):
                continue
        elif raised != ARGPARSE and not _refuses(name, raised):
            continue
        yield shortened(_text(node.args[0])), node.lineno


def _refuses(name: str, raised: str) -> bool:
    """Whether what is called in this file is the class of an error that a user sees."""
    if not raised.endswith(("Error", "Unavailable", "Lost", "Row", "Request", "Busy", "Refused")):
        return False
    module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
    # What a function imports for itself is the judge's.
    kind = vars(module).get(raised) or getattr(builtins, raised, None) or getattr(sandbox, raised, None)
    return isinstance(kind, type) and issubclass(kind, REFUSALS)


def _is_section(name: str, inside: str) -> bool:
    """Whether it is the name of a class of the configuration, whose validators say what does not go together."""
    if not inside:
        return False
    kind = vars(importlib.import_module(name.removesuffix(".py").replace("/", "."))).get(inside)
    return isinstance(kind, type) and issubclass(kind, Section)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
    return GAP


def shortened(text: str) -> str:
    """On one line, and gaps that touch as one."""
    return re.sub(f"{GAP}[{GAP} ]*{GAP}", GAP, " ".join(text.split()))


def _says_something(text: str) -> bool:
    """Whether more is told than the words of another error, which is listed by itself, behind the key at fault."""
    return bool(re.search("[a-z]{2,}", text)) and not re.fullmatch(f"[^ ]+(, [^ ]+)*: {GAP}", text)
