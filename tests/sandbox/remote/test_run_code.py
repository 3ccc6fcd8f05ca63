"""SandboxFusion's run_code: what a script prints, as `python solution.py` prints it, and how it ends."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from service import answer_to, running

from sandbox import Limits, SandboxPool, ScriptJob, ScriptResult
from sandbox.remote import server
from sandbox.remote.bearer import authorizes
from sandbox.remote.server import ENDPOINTS, make_app


def ask(address: str, path: str = "/run_code", token: str = "", **fields: Any) -> tuple[int, Any]:
    """Status and answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    status, text, _ = answer_to(address + path, json.dumps(fields).encode(), **headers)
    return status, json.loads(text) if status == 200 else text


# --- what a script prints -------------------------------------------------------------------------------

SCRIPTS = {
    "both outputs": "import sys\nprint('a  b ')\nprint('warning', file=sys.stderr)",
    "an input": "import sys\nprint(input()[::-1])\nprint(sys.stdin.read(), end='')",
    "nothing": "",
    "an exception": "print('before')\ndef f():\n    raise ValueError('no')\nf()",
    "a failed assert": "assert 1 == 2, 'they differ'",
    "a syntax error": "print('never'\n",
    "an exit code": "import sys\nprint('x')\nsys.exit(3)",
    "an exit with a text": "raise SystemExit('stopped')",
    "an exit function": "import atexit\natexit.register(print, 'at last')\nprint('first')\n1 / 0",
    "an exit without end": "import os\nprint('x', flush=True)\nos._exit(7)",
    "a thread": "import threading\nthreading.Thread(target=print, args=('from a thread',)).start()",
    "descriptors": "import os\nos.write(2, b'e' * 10)\nos.write(1, b'o\\n')",
    "another process": "import subprocess, sys\nsubprocess.run(['sh', '-c', 'echo a; echo b >&2'])",
    "as a script": "if __name__ == '__main__':\n    print(__name__)",
    "a signal": "import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_and_prints_as_under_python_itself(jail: SandboxPool, name: str):
    given = "abc\nmore\nlines"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPTS[name]], input=given, capture_output=True, text=True, check=False
    )
    (result,) = jail.execute([ScriptJob(SCRIPTS[name], given)])
    assert (result.exit_code, result.stdout) == (done.returncode, done.stdout)
    if name not in {"an exit without end", "a signal"}:  # after which nobody hands it over
        assert result.stderr.splitlines()[-1:] == done.stderr.splitlines()[-1:]
    assert "script.py" not in result.stderr and "stream.py" not in result.stderr


def test_a_traceback_has_the_scripts_own_frames_alone(jail: SandboxPool):
    (result,) = jail.execute([ScriptJob(SCRIPTS["an exception"])])
    assert result.stderr == (
        "Traceback (most recent call last):\n"
        '  File "solution.py", line 4, in <module>\n  File "solution.py", line 3, in f\nValueError: no\n'
    )


@pytest.mark.parametrize("script", ["while True: pass", "import time\nprint('a', flush=True)\ntime.sleep(60)"])
def test_a_script_that_does_not_end_is_ended_and_keeps_what_it_printed(jail: SandboxPool, script: str):
    (result,) = jail.execute([ScriptJob(script, limits=Limits(call_seconds=0.3, wall_factor=20))])
    assert result.exit_code is None and result.stdout in ("", "a\n")


def test_long_and_odd_outputs_come_back(jail: SandboxPool):
    script = (
        "import sys\nsys.stdout.buffer.write(b'\\xff\\0')\nprint('x' * 100_000)\nprint('e' * 100_000, file=sys.stderr)"
    )
    (result,) = jail.execute([ScriptJob(script)])
    assert result.stdout == "\ufffd\0" + "x" * 100_000 + "\n"
    assert result.stderr == "e" * ((1 << 16) - 1) + "\n"  # the last ones


def test_runs_know_nothing_of_each_other(jail: SandboxPool):
    left = "import os\nopen('left', 'w').write('x')\nimport builtins\nbuiltins.left = 1\nprint(os.listdir('.'))"
    looks = "import os, builtins\nprint(os.listdir('.'), hasattr(builtins, 'left'))"
    for _ in range(4):
        assert [result.stdout for result in jail.execute([ScriptJob(left), ScriptJob(looks)])] == [
            "['left']\n",
            "[] False\n",
        ]


def test_scripts_run_without_a_jail_as_well(pool: SandboxPool):
    (result,) = pool.execute([ScriptJob("print(input())\n1 / 0", "a")])
    assert (result.exit_code, result.stdout) == (1, "a\n") and result.stderr.endswith(
        "ZeroDivisionError: division by zero\n"
    )
    assert isinstance(result, ScriptResult)


# --- the protocol ---------------------------------------------------------------------------------------


def test_the_answer_is_sandbox_fusions(jail: SandboxPool):
    with running(make_app(jail)) as address:
        status, answer = ask(address, code="print(int(input()) + 1)", language="python", stdin="1")
        assert status == 200 and (answer["status"], answer["message"], answer["files"]) == ("Success", "", {})
        assert answer["compile_result"] is None
        run = answer["run_result"]
        assert (run["status"], run["return_code"], run["stdout"], run["stderr"]) == ("Finished", 0, "2\n", "")
        assert 0 < run["execution_time"] < 10
        # As verl sends it (verl/utils/reward_score/sandbox_fusion/utils.py), with what it leaves empty.
        sent = {"compile_timeout": 10, "run_timeout": 10, "memory_limit_MB": 1024, "files": {}, "fetch_files": []}
        failed = ask(address, code="import sys; sys.exit(2)", language="python", stdin=None, **sent)[1]
        assert (failed["status"], failed["run_result"]["return_code"]) == ("Failed", 2)
        late = ask(address, code="while True: pass", language="python", run_timeout=0.2)[1]
        assert (late["status"], late["run_result"]["status"]) == ("Failed", "TimeLimitExceeded")
        big = ask(address, code="x = 'a' * 2**29", language="python", memory_limit_MB=128)[1]
        assert "MemoryError" in big["run_result"]["stderr"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"code": "x", "language": "cpp"}, "language must be python here, not 'cpp'"),
        ({"code": "x"}, "language must be python"),
        ({"language": "python"}, "code must be a text"),
        ({"code": "x", "language": "python", "stdin": 1}, "stdin a text or null"),
        ({"code": "x", "language": "python", "files": {"a": "eA=="}}, "files and fetch_files are not supported"),
        ({"code": "x", "language": "python", "run_timeout": 1000}, "limits.call_seconds can be at most 600 here"),
        ({"code": "x", "language": "python", "run_timeout": "1"}, "limits.call_seconds must be a number"),
        ({"code": "x", "language": "python", "memory_limit_MB": 1 << 23}, "limits.memory_mb can be at most"),
        ({"code": "x", "language": "python", "memory_limit_MB": 0}, "limits.memory_mb must be positive"),
    ],
)
def test_what_it_does_not_do_is_refused_by_name_and_never_run(jail: SandboxPool, fields: dict, reason: str):
    with running(make_app(jail)) as address:
        status, text = ask(address, **fields)
    assert status == 400 and reason in text


def test_the_operator_bounds_what_requests_may_ask_for(jail: SandboxPool):
    with running(make_app(jail, most=server.most_limits(seconds=5, memory_mb=300))) as address:
        assert ask(address, code="", language="python", run_timeout=5, memory_limit_MB=300)[0] == 200
        assert ask(address, code="", language="python", run_timeout=6)[0] == 400
        assert ask(address, code="", language="python", memory_limit_MB=301)[0] == 400


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "is_right"),
    [
        ("Bearer secret", True),
        (basic("anybody:secret"), True),
        (basic(":secret"), True),
        (basic("secret"), False),
        (basic("secret:"), False),
        (basic("a:secret:"), False),
        ("Basic secret", False),
        ("Basic \xff", False),
        ("Basic ", False),
        ("", False),
    ],
)
def test_a_url_with_the_token_as_its_password_is_enough(header: str, is_right: bool):
    assert authorizes(header, "secret") is is_right


def test_without_the_token_nothing_runs(jail: SandboxPool):
    with running(make_app(jail, "secret")) as address:
        for path in ENDPOINTS:
            assert ask(address, path, code="print(1)", language="python")[0] == 401
        assert ask(address, token="secret", code="print(1)", language="python")[0] == 200
