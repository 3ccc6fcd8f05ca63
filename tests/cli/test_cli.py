"""The command line: what it prints, what it refuses, and with which exit code."""

import errno
import io
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import jax
import pytest
import yaml
from one_line import refused
from tiny_run import train_arguments

from codea1_jax import cli
from codea1_jax.cli._runtime import leave_out_absent_accelerators
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, dump, load, preset_names
from codea1_jax.plan.planned import Plans, read_plans


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written to a relative path lands here; nothing is logged to standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("codea1_jax.cli._output.log_to_stderr", lambda *_: None)


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


# --- configuration ------------------------------------------------------------------------------------


def test_dry_run_prints_the_resolved_configuration_and_writes_nothing(capsys, tmp_path):
    assert cli.main(["train", "micro/a1", "rollout.samples=4", "train.steps=20", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    config = load(Config, "micro/a1", ["rollout.samples=4", "train.steps=20"])
    assert out == dump(config)
    assert Config.model_validate(yaml.safe_load(out)) == config
    assert err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_bad_configuration_is_one_line_and_nothing_is_written(capsys, tmp_path):
    line = "test.start: method.name=golden trains no policy of that name"
    assert line in refused(capsys, "train", "micro/golden", "test.start=runs/sft")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("own", [None, "0.5"])
def test_nine_tenths_of_a_gpus_memory_are_used_unless_the_user_says_otherwise(own, monkeypatch):
    """As plans assume (`models.chips`); JAX's own default is three quarters."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", own or "")
    if own is None:
        monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert cli.main(["presets", "--json"]) == 0
    assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == (own or "0.9")


def test_options_may_stand_anywhere(capsys):
    for arguments in (["--dry-run", "micro/a1", "train.steps=5"], ["micro/a1", "--dry-run", "train.steps=5"]):
        assert cli.main(["train", *arguments]) == 0
        assert Config.model_validate(yaml.safe_load(capsys.readouterr().out)).train.steps == 5


def test_presets_are_listed(capsys):
    assert cli.main(["presets", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (list(found["presets"]), err, out.count("\n")) == (list(preset_names()), "", 1)
    least, expected = read_plans().hours["7b/golden_v5p"]
    assert found["presets"]["7b/golden_v5p"] == {"hours_at_least": least, "hours_expected": expected}
    assert found["presets"]["micro/a1"] == {"hours_at_least": None, "hours_expected": None}


def test_presets_begin_with_what_runs_on_which_hardware_and_end_there_without_a_model(capsys):
    assert cli.main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60 and any("micro/a1" in line for line in lines[:6])
    assert any(line.split()[:2] == ["1.5b/a1_h100x1", "h100:1"] for line in lines)


def test_every_preset_of_one_model_is_listed_with_its_hardware(capsys):
    assert cli.main(["presets", "7b", "micro"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    plans = read_plans()
    assert f"7b/golden_v5p {plans.hours['7b/golden_v5p'][1]:.1f} h" in lines and "micro/a1_alpha25" in lines
    [compiled] = [line for line in lines if line.startswith("7b/a1_v5p v5p:")]
    plan, hours = plans.plans["7b/a1_v5p"], f"{plans.hours['7b/a1_v5p'][1]:.1f}"
    step = f"{plan.seconds:.0f} / {plan.expected:.0f}"
    assert compiled == f"7b/a1_v5p v5p:2x2x4 {plan.memory:.1f} 95.7 {step} {hours} fits"
    assert not any(line.startswith(("1.5b/", "3b/")) for line in lines)
    assert refused(capsys, "presets", "4b").startswith(
        "codea1: presets: no model 4b; there are micro, micro-hard, micro-stream, "
    )


def test_a_model_needs_no_plans(capsys, monkeypatch):
    monkeypatch.setattr("codea1_jax.cli.presets.read_plans", lambda: Plans("", {}, {}))
    assert cli.main(["presets"]) == 0
    assert "1.5b/a1_v5e" not in capsys.readouterr().out
    assert cli.main(["reproduce", "code", "--model", "1.5b", "--dry-run"]) == 0
    assert "codea1 train 1.5b/a1_paper " in capsys.readouterr().out


def test_ctrl_c_outside_of_training_needs_no_traceback(capsys, monkeypatch):
    def press() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("codea1_jax.cli.presets.preset_names", press)
    assert cli.main(["presets"]) == 130
    assert capsys.readouterr().err == "codea1: stopped\n"


@contextmanager
def nobody_reads() -> Iterator[None]:
    """Inside it standard output is a pipe whose other end is closed; afterwards what is left is written there."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output, redirect_stdout(output):
        yield


def test_what_nobody_reads_changes_no_exit_code(capsys):
    with nobody_reads():
        assert cli.main(["train", "micro/a1", "--dry-run"]) == 0
    with nobody_reads(), pytest.raises(SystemExit, match=r"^0$"):
        cli.main(["--help"])
    assert capsys.readouterr().err == ""


def test_a_broken_pipe_that_is_not_standard_output_is_a_failure(capsys, monkeypatch):
    def lose_a_service() -> None:
        print("not written yet")
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("codea1_jax.cli.presets.preset_names", lose_a_service)
    with nobody_reads():
        assert cli.main(["presets"]) == 1
    assert capsys.readouterr().err == "codea1: Broken pipe\n"


# --- questions ----------------------------------------------------------------------------------------

GOOD = {
    "id": "twice",
    "question": "Write twice(x): return x doubled.",
    "solution": "def twice(x):\n    return 2 * x",
    "entry_point": "twice",
    "tests": ["assert twice(2) == 4"],
}
WITHOUT_REFERENCE = GOOD | {"id": "no-reference", "solution": ""}
WRONG_REFERENCE = GOOD | {"id": "wrong-reference", "solution": "def twice(x):\n    return x + 1"}
BROKEN_REFERENCE = GOOD | {"id": "broken-reference", "solution": "import nothing_like_it\ndef twice(x): return 2 * x"}
LONG = GOOD | {"id": "too-long", "question": "very " * 2000, "solution": "def twice(x):\n    return x + x"}


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        ("1.5b/a1_v5e", "data.source: data/kodcode does not exist; create it: codea1 data prepare kodcode"),
        ("7b/a1_lora_h100", "data.source: data/kodcode does not exist; create it: codea1 data prepare kodcode"),
        (
            "micro/static_sft",
            "data.golden_tests: runs/micro-suites-sft/problems.jsonl does not exist; create it: codea1 eval suites "
            "--data QUESTIONS --model RUN --out runs/micro-suites-sft",
        ),
    ],
)
def test_questions_that_are_missing_are_one_line_before_anything_is_made_or_waited_for(
    preset, line, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: pytest.fail("other hosts are waited for"))
    hosts = ("hosts.coordinator=10.0.0.1:1", "hosts.count=2", "hosts.index=0")
    assert refused(capsys, "train", preset, *hosts) == f"codea1: {line}\n"
    assert list(tmp_path.iterdir()) == []
    assert cli.main(["train", preset, "--dry-run"]) == 0


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "missing.jsonl"),
        ("", "data.jsonl: "),
        ('{"id": 1', "data.jsonl"),
        ('[1, 2, "three"]', "no row is an object"),
        ('{"name": "f", "body": "g"}', "are of no known format"),
    ],
)
def test_a_source_that_is_missing_or_malformed_is_one_line(content, line, capsys, tmp_path):
    source = tmp_path / ("data.jsonl" if content is not None else "missing.jsonl")
    if content is not None:
        source.write_text(content)
    said = refused(capsys, *train_arguments(tmp_path / "run", f"data.source={source}"))
    assert "codea1: data.source: " in said and line in said
    assert not (tmp_path / "run").exists()


def test_a_source_of_too_few_good_questions_is_refused_with_their_number(capsys, tmp_path):
    source = write_jsonl(tmp_path / "data.jsonl", [GOOD, WRONG_REFERENCE])
    said = refused(capsys, *train_arguments(tmp_path / "run", f"data.source={source}"))
    assert "leaves 1 question, holds 0 out and refuses 1; a step needs train.questions=2: lower it" in said


@pytest.mark.parametrize("method", ["golden", "sft"])
def test_a_question_without_golden_tests_is_refused_where_they_are_learned_from(method, capsys, tmp_path):
    source = write_jsonl(tmp_path / "data.jsonl", [GOOD, GOOD | {"id": "untested", "tests": []}])
    said = refused(capsys, *train_arguments(tmp_path / "run", f"data.source={source}", f"method.name={method}"))
    assert "leaves 1 question, holds 0 out and refuses 1" in said
    [refusal] = read_lines(tmp_path / "run.refused.jsonl")
    assert refusal == {"id": "untested", "reason": f"it has no golden tests, from which {method} learns"}


# --- run directories ----------------------------------------------------------------------------------

ANOTHER = GOOD | {"id": "thrice", "question": "Write twice(x): x and x.", "solution": "def twice(x):\n  return x + x"}


@pytest.fixture(scope="module")
def run_on_a_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """A finished run of one step on good and bad questions, of which two good ones are left; and its arguments."""
    folder = tmp_path_factory.mktemp("on_a_file")
    rows = [GOOD, WITHOUT_REFERENCE, WRONG_REFERENCE, BROKEN_REFERENCE, LONG, "not JSON", ANOTHER]
    source = write_jsonl(folder / "data.jsonl", rows)
    arguments = train_arguments(
        folder / "run", "train.steps=1", "checkpoint.every=1", "eval.every=0", f"data.source={source}"
    )
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.setattr("codea1_jax.cli._output.log_to_stderr", lambda *_: None)
        assert cli.main(arguments) == 0
    assert out.getvalue().strip() == str(folder / "run" / "report.html")
    return folder / "run", arguments


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_every_question_is_trained_on_or_refused_by_name_and_reason(run_on_a_file):
    directory, _ = run_on_a_file
    reasons = {line["id"]: line["reason"] for line in read_lines(directory / "refused.jsonl")}
    assert reasons.keys() == {"no-reference", "wrong-reference", "broken-reference", "too-long", "row 6"}
    assert "solution" in reasons["no-reference"]
    assert reasons["wrong-reference"] == "the solution fails tests (1 of 1): twice(2) gave 3, not 4"
    assert "does not execute" in reasons["broken-reference"]
    assert reasons["too-long"] == "its prompt is too long"
    rollouts = read_lines(directory / "rollouts" / "step_000001.jsonl")
    assert {line["question_id"] for line in rollouts} == {"twice", "thrice"}


def test_a_directory_that_holds_a_run_is_only_gone_on_with_and_only_with_its_own_configuration(run_on_a_file, capsys):
    directory, arguments = run_on_a_file
    before = files(directory)
    assert "is not empty; add --resume to continue it" in refused(capsys, *arguments)
    said = refused(capsys, *arguments, "rollout.top_p=0.9", "--resume")
    assert "rollout.top_p: the run in" in said and "was started with 1.0, not 0.9" in said
    assert files(directory) == before


# --- the tables ---------------------------------------------------------------------------------------


def reproduced(capsys, *arguments: str) -> tuple[list[list[str]], list[str]]:
    """The words of the missing commands, and what is printed about them."""
    assert cli.main(["reproduce", *arguments, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    return [shlex.split(line) for line in out.splitlines()], err.splitlines()


def test_a_table_of_a_real_size_is_prepared_trained_and_evaluated_in_order(capsys, tmp_path):
    commands, [counts] = reproduced(capsys, "static", "--model", "1.5b", "--hardware", "v5e:4x4")
    assert commands[0] == ["codea1", "data", "prepare", "kodcode"]
    trained = {words[2]: i for i, words in enumerate(commands) if words[1] == "train"}
    assert list(trained) == [
        f"1.5b/{name}_paper_v5e" for name in ("golden", "static_base", "sft", "static_sft", "a1", "static_a1")
    ]
    suites = {
        words[words.index("--model") + 1]: i for i, words in enumerate(commands) if words[1:3] == ["eval", "suites"]
    }
    runs = "runs/lab-1.5b"
    authors = ["Qwen/Qwen2.5-Coder-1.5B-Instruct", f"{runs}/sft-seed0", f"{runs}/a1-seed0"]
    assert list(suites) == authors
    for author, method in zip(authors, ("base", "sft", "a1"), strict=True):
        assert suites[author] < trained[f"1.5b/static_{method}_paper_v5e"]
        assert (
            f"data.golden_tests={runs}/suites-{method}-seed0/problems.jsonl"
            in commands[trained[f"1.5b/static_{method}_paper_v5e"]]
        )
    assert trained["1.5b/sft_paper_v5e"] < suites[authors[1]] and trained["1.5b/a1_paper_v5e"] < suites[authors[2]]
    measured = [(words[4], words[words.index("--out") + 1]) for words in commands if words[1:3] == ["eval", "code"]]
    names = {"evalplus/humanevalplus", "evalplus/mbppplus", "bigcode/bigcodebench/data/v0.1.4-*"}
    assert {place for place, _ in measured} == names and len(measured) == 4 * 3
    assert "missing: 1 preparation, 6 training runs, 15 evaluations" in counts
    assert list(tmp_path.iterdir()) == []


def test_bigcodebench_alone_is_evaluated_in_the_environment_that_is_named(capsys):
    commands, _ = reproduced(capsys, "code", "--model", "1.5b", "--hardware", "local", "--environment", "/packages")
    evaluated = [words for words in commands if words[1:3] == ["eval", "code"]]
    named = {words[words.index("--data") + 1]: "--environment /packages" in " ".join(words) for words in evaluated}
    assert named == {
        "evalplus/humanevalplus": False,
        "evalplus/mbppplus": False,
        "bigcode/bigcodebench/data/v0.1.4-*": True,
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--model", "1.5b"), "--hardware: name it, as in v5e:4x4"),
        (
            ("--model", "1.5b", "--hardware", "v5e:8x8"),
            "presets of 1.5b are laid out for v5e:4x4, v5p:2x2x1, v6e:2x4, tpu7x:2x2x1",
        ),
        (("--model", "1.5b", "--hardware", "local", "--questions", "9"), "--questions, --heldout: only the micro"),
        (("--model", "1.5b", "--hardware", "local", "--data", "humaneval=x"), "--data humaneval=x: write NAME=PLACE"),
        (("--model", "1.5b", "--hardware", "local", "--data", "mbppplus=./x"), "--data: ./x: no such file"),
        (("--hardware", "h100:8"), "--model micro: the micro world takes no --hardware"),
    ],
)
def test_a_reproduction_that_cannot_work_is_refused_before_anything_is_begun(arguments, reason, capsys, tmp_path):
    assert cli.main(["reproduce", "code", *arguments]) == 2
    *before, line = capsys.readouterr().err.splitlines()
    assert reason in line and all(each.startswith("codea1: ") for each in before)
    assert list(tmp_path.iterdir()) == []


def test_tables_of_tests_want_the_rows_that_are_not_on_the_hub(capsys):
    assert cli.main(["reproduce", "tests", "--model", "1.5b", "--hardware", "local"]) == 2
    assert "--data: ult.json: no such file; name the rows, as in --data ult=PLACE" in capsys.readouterr().err


def test_a_table_in_the_micro_world_is_the_commands_that_are_missing(capsys):
    assert cli.main(["reproduce", "static", "--seeds", "1", "--dry-run"]) == 0
    commands = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    trained = [words[2] for words in commands if words[1] == "train"]
    assert trained == [
        "micro/" + name for name in ("base", "golden", "static_base", "sft", "static_sft", "a1", "static_a1")
    ]
    assert sum(words[1:] == ["eval", "suites"] for words in commands) == 3
    assert "no table" in refused(capsys, "reproduce", "tabel")
    assert "no table 'rewards'; there are code" in refused(capsys, "reproduce", "rewards", "--model", "1.5b")


def trained_presets(capsys, *arguments: str) -> list[tuple[str, str]]:
    commands, _ = reproduced(capsys, *arguments)
    return [(words[2], words[3]) for words in commands if words[1] == "train"]


def test_tables_that_the_paper_does_not_have_are_asked_for_by_name(capsys):
    alone = {preset for preset, _ in trained_presets(capsys, "all", "--seeds", "1")}
    more = {preset for preset, _ in trained_presets(capsys, "all", "rewards", "--seeds", "1")}
    assert more - alone == {"micro/a1_right_mutation", "micro/a1_shared"} and alone < more


def test_a_seed_is_complete_in_all_tables_before_the_next_one_begins(capsys):
    seeds = [seed for _, seed in trained_presets(capsys, "code", "rewards", "--seeds", "3")]
    assert seeds == sorted(seeds) and set(seeds) == {"run.seed=0", "run.seed=1", "run.seed=2"}


def finish(folder: Path, preset: str, overrides: Sequence[str]) -> tuple[Path, Config]:
    """A finished run's directory, and what it was."""
    config = load(Config, preset, overrides)
    finished = folder / config.run.directory
    finished.mkdir(parents=True)
    (finished / "config.yaml").write_text(dump(config))
    (finished / "summary.json").write_text("{}")
    return finished, config


def test_finished_runs_decide_on_hypotheses(capsys, tmp_path):
    asked = ["code", "--seeds", "2", "--steps", "3", "--questions", "8"]
    commands, _ = reproduced(capsys, *asked)
    for _, _, preset, *overrides in commands:
        finished, config = finish(tmp_path, preset, overrides)
        figure = {"micro/a1": 60.0, "micro/golden": 40.0}.get(preset, 50.0) + config.run.seed / 100
        line = {"kind": "eval", "step": 3, "eval/avg_at_n": figure, "eval/pass_at_8": 90.0}
        (finished / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert cli.main(["reproduce", *asked]) == 0
    text = (tmp_path / "runs/lab/hypotheses.md").read_text()
    assert text in capsys.readouterr().out
    assert text.count("**supported**") == 2 and "contradicted" not in text
    assert "for the 10 comparisons of this family, of which 8 are" in text


@pytest.mark.parametrize("changed", [("--steps", "2"), ("--questions", "12")])
def test_runs_of_one_budget_are_not_shown_as_those_of_another(changed, capsys, tmp_path):
    asked = ["reproduce", "code", "--seeds", "1", "--steps", "3", "--questions", "8", "--dry-run"]
    assert cli.main(asked) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    for command in (first, second):  # base and a method, finished
        _, _, preset, *overrides = shlex.split(command)
        finish(tmp_path, preset, overrides)
    assert cli.main(asked) == 0
    left = capsys.readouterr().out.splitlines()
    assert first not in left and second not in left
    said = refused(capsys, *asked, *changed)
    assert re.search(r"--out: runs/lab/\S+ was trained with \S+=(3|8); choose another folder", said)


@pytest.mark.parametrize(
    "file", [None, "dev/nvidia0", "dev/accel0", "dev/vfio/0", "dev/dxg", "sys/bus/pci/devices/7/vendor"]
)
def test_jax_is_kept_to_the_cpu_only_where_no_accelerator_is_here(tmp_path, monkeypatch, file):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    bridge = tmp_path / "sys/bus/pci/devices/0/vendor"
    bridge.parent.mkdir(parents=True)
    bridge.write_text("0x8086\n")
    if file is not None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("0x10de\n")
    leave_out_absent_accelerators(tmp_path)
    assert os.environ.get("JAX_PLATFORMS") == (None if file else "cpu")
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    leave_out_absent_accelerators(tmp_path)
    assert os.environ["JAX_PLATFORMS"] == "tpu"
