"""Puts runs, style sheets and scripts into one HTML file.

Everything the models wrote is hostile: it enters the page as JSON in which no `<` survives, is shown through
`textContent` alone, and the content security policy admits only the page's own script, by its hash, and no network.
"""

import base64
import hashlib
import html
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from codea1_jax.common.files import write_atomically
from codea1_jax.run.report.run_data import Run, read_runs

ROLLOUT_BYTES = 7_000_000

_ASSETS = resources.files("codea1_jax.run.report.assets")


def build_report(run_dirs: Sequence[Path], out: Path | None = None, *, refresh_seconds: int | None = None) -> Path:
    """Writes the page for one run, or the page that compares several, and returns its path.

    Without `out`: `report.html` in the run directory, or `comparison.html` next to the first of several.
    `refresh_seconds` makes the page reload itself. Raises ValueError for no run at all, and what `read_runs`
    raises.
    """
    if not run_dirs:
        raise ValueError("a report needs at least one run directory")
    runs = read_runs(run_dirs, ROLLOUT_BYTES)
    path = out or (run_dirs[0] / "report.html" if len(run_dirs) == 1 else run_dirs[0].parent / "comparison.html")
    write_atomically(path, render(runs, refresh_seconds))
    return path


def follow_report(
    run_dirs: Sequence[Path], out: Path | None = None, *, seconds: int = 10, wait: Callable[[float], None] = time.sleep
) -> Path:
    """Rebuilds the page every `seconds` until interrupted (Ctrl-C), then once more without reloading."""
    try:
        while True:
            build_report(run_dirs, out, refresh_seconds=seconds)
            wait(seconds)
    except KeyboardInterrupt:
        return build_report(run_dirs, out)


def render(runs: Sequence[Run], refresh_seconds: int | None = None) -> str:
    style, scripts = ("\n".join(map(_asset, names)) for names in json.loads(_asset("order.json")).values())
    script = f"(() => {{\n'use strict';\n{scripts}\n}})();\n"
    title = " vs ".join(dict.fromkeys(run.group for run in runs)) + " · Code-A1"
    parts = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "refresh": "" if refresh_seconds is None else f'<meta http-equiv="refresh" content="{refresh_seconds}">',
        "title": html.escape(title),
        "style": style,
        "data": embed_json({"live": refresh_seconds, "runs": [asdict(run) for run in runs]}),
        "script": script,
    }
    # One pass, so that nothing inserted is ever taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def embed_json(value: Mapping[str, Any]) -> str:
    """JSON that is safe inside a script element: ASCII, without `<`, `>` or `&`, and equal when parsed."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
