"""SandboxFusion's POST /run_code (https://bytedance.github.io/SandboxFusion), for Python.

Weaker than our own protocol by its nature: the answer is what a program prints and how it exits, and whoever sends
asserts along with the program sends them into its process. A program can print anything, and can exit with 0 before
any assert. The jail around it is the same.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from sandbox.jobs import Limits, Request, ScriptJob, ScriptResult

_SECONDS = 10.0  # SandboxFusion's own default


def run_code(document: Any, own: Limits) -> Generator[Request[Any], Any, dict[str, Any]]:
    fields = as_object(document, "the request")
    as_python(fields)
    code, stdin = fields.get("code"), fields.get("stdin")
    if not isinstance(code, str) or not isinstance(stdin, str | None):
        raise ValueError("code must be a text, and stdin a text or null")
    if fields.get("files") or fields.get("fetch_files"):
        raise ValueError("files and fetch_files are not supported here")
    result = yield ScriptJob(code, stdin or "", limits_of(fields, own, _SECONDS))
    return answer_of(result)


def answer_of(result: ScriptResult) -> dict[str, Any]:
    return response(
        "Finished" if result.exit_code is not None else "TimeLimitExceeded",
        result.exit_code,
        result.stdout,
        result.stderr,
        result.wall_seconds,
    )


def response(status: str, exit_code: int | None, stdout: str, stderr: str, seconds: float) -> dict[str, Any]:
    run = {"status": status, "execution_time": seconds, "return_code": exit_code, "stdout": stdout, "stderr": stderr}
    return {
        "status": "Success" if exit_code == 0 else "Failed",
        "message": "",
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": None,
        "files": {},
    }


def limits_of(fields: Mapping[str, Any], own: Limits, seconds: float) -> Limits:
    asked, memory_mb = fields.get("run_timeout"), fields.get("memory_limit_MB")
    seconds = seconds if asked is None else asked
    if memory_mb in (None, -1):
        memory_mb = own.memory_mb
    return replace(own.lasting(seconds), memory_mb=memory_mb)


def as_python(fields: Mapping[str, Any]) -> None:
    if fields.get("language") != "python":
        raise ValueError(f"language must be python here, not {fields.get('language')!r}")


def as_object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return value
