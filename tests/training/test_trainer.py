"""Training from Python: the numbers of the command line, and rewards, questions and judges of the caller's."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from tiny_run import ROOT, SETTINGS, train_arguments, without_times

from codea1_jax import cli
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, dump, load
from codea1_jax.training.checks import named_function
from codea1_jax.training.parts import make_judge
from codea1_jax.training.trainer import Results, Trainer, describe_refused
from data_pipeline import Problem, Refusal

QUICK = (*SETTINGS, "eval.every=0")
pytestmark = pytest.mark.usefixtures("own_directory")


def configured(*overrides: str) -> Config:
    return load(Config, "micro/a1_paper", [*QUICK, "run.directory=run", *overrides])


def test_a_start_that_cannot_be_used_leaves_no_directory_behind(tmp_path):
    with pytest.raises(UserError, match="none"), Trainer(configured(f"code.start={tmp_path / 'none'}")):
        pytest.fail("entered")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_the_command_line_and_python_train_to_the_same_figures_and_rollouts(tmp_path, capsys):
    assert cli.main(train_arguments(tmp_path / "command", "train.steps=2")) == 0
    assert str(tmp_path / "command" / "report.html") in capsys.readouterr().out
    config = load(Config, "micro/a1_paper", [*SETTINGS, "train.steps=2", "run.directory=run"])
    with Trainer(config) as trainer:
        results = trainer.train()
        again = trainer.evaluate()
    assert without_times(results.path) == without_times(tmp_path / "command")
    command = Results(tmp_path / "command")
    assert [results.rollouts(step) for step in (1, 2)] == [command.rollouts(step) for step in (1, 2)]
    assert results.summary["final"] == command.summary["final"]
    assert results.report.exists()
    last = results.metrics("eval")[-1]
    assert {name: last[name] for name in again if name != "seconds/eval"} == {
        name: value for name, value in again.items() if name != "seconds/eval"
    }


BY_LENGTH = """
given = []

def by_length(judged):
    given.append((judged.problem.id, judged.response, judged.reward))
    return len(judged.program)

def nothing(): return 0
"""


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("absent.py:f", "rewards.code: absent.py:f is not FILE.py:FUNCTION of a file that is here"),
        ("mine.py", "rewards.code: mine.py is not FILE.py:FUNCTION of a file that is here"),
        ("mine.py:by_width", "rewards.code: mine.py defines no function by_width"),
        ("mine.py:given", "rewards.code: mine.py defines no function given"),
        ("mine.txt:by_length", "rewards.code: mine.txt:by_length is not FILE.py:FUNCTION of a file that is here"),
        ("mine.py:nothing", "rewards.code: mine.py:nothing must take what was judged: too many positional arguments"),
    ],
)
def test_a_reward_function_that_is_not_there_is_named_before_anything_starts(tmp_path, named, message):
    for name in ("mine.py", "mine.txt"):
        (tmp_path / name).write_text(BY_LENGTH)
    with pytest.raises(UserError) as refused:
        Trainer(configured(f"rewards.code={named}"))
    assert str(refused.value) == message


@pytest.mark.long
def test_given_rewards_stand_in_for_the_papers_and_a_given_judge_stays_open(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(BY_LENGTH)

    def by_validity(judged):
        assert len(judged.verdicts) == len(judged.kept)
        return 7 - judged.invalid

    config = configured("train.steps=1", f"rewards.code={file}:by_length")
    with make_judge(config.sandbox) as judge:
        with Trainer(config, judge=judge, test_reward=by_validity) as trainer:
            results = trainer.train()
        assert judge.execute([]) == []
    seen = named_function("rewards.code", f"{file}:by_length").__globals__["given"]
    records = results.rollouts(1)
    programs = [(record["question_id"], program) for record in records for program in record["programs"]]
    assert [program["reward"] for _, program in programs] == [len(program["program"]) for _, program in programs]
    assert [(question, program["response"]) for question, program in programs] == [
        (question, response) for question, response, _ in seen
    ]
    assert all(0 <= paper <= 1 for _, _, paper in seen)  # what the function was given is the paper's
    suites = [suite for _, program in programs for suite in program["suites"]]
    assert suites and all(suite["reward"] == 7 - suite["invalid"] for suite in suites)
    for record in records:
        first, second = record["programs"]
        longer = (len(first["program"]) > len(second["program"])) - (len(first["program"]) < len(second["program"]))
        assert (first["advantage"] > second["advantage"]) - (first["advantage"] < second["advantage"]) == longer


QUESTIONS = [
    Problem(name, f"Write {name}(x): return x {what}.", f"def {name}(x):\n    return {code}", name, (test,))
    for name, what, code, test in (
        ("twice", "doubled", "2 * x", "assert twice(2) == 4"),
        ("next_one", "plus one", "x + 1", "assert next_one(2) == 3"),
        ("square", "squared", "x * x", "assert square(3) == 9"),
        ("broken", "negated", "x", "assert broken(1) == -1"),
    )
]


@pytest.mark.long
def test_given_questions_are_trained_on_those_that_fail_their_tests_refused_and_the_run_resumed():
    config = configured("train.steps=1", "data.problems=1")
    with Trainer(config, questions=QUESTIONS[1:], heldout=QUESTIONS[:1]) as trainer:
        results = trainer.train()
    assert {record["question_id"] for record in results.rollouts(1)} == {"next_one", "square"}
    (refusal,) = read_lines(results.path / "refused.jsonl")
    assert refusal["id"] == "broken" and "the solution fails tests" in refusal["reason"]
    assert yaml.safe_load((results.path / "config.yaml").read_text())["data"]["source"] == "python"
    with Trainer(config, questions=QUESTIONS[1:], heldout=QUESTIONS[:1], resume=True) as trainer:
        assert trainer.train().metrics() == results.metrics()
    with pytest.raises(UserError, match="is not empty; add --resume"), Trainer(config, questions=QUESTIONS):
        pass


def test_refused_questions_are_counted_by_reason_and_the_first_ones_named():
    reasons = {"a": "too long", "b": "fails", "c": "fails", "d": "fails", "e": "fails"}
    assert describe_refused([Refusal(name, reason) for name, reason in reasons.items()]) == [
        "4 questions refused: fails (b, c, d, ...)",
        "1 question refused: too long (a)",
    ]


@pytest.mark.long
def test_the_example_in_the_documentation_runs(tmp_path, capsys):
    """The preset of the example is a smaller one here: files in the working directory come first."""
    tiny = load(Config, "micro/a1_paper", [*SETTINGS, "eval.every=3", "run.directory=unused"])
    (tmp_path / "micro").mkdir()
    (tmp_path / "micro" / "a1").write_text(dump(tiny))
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "problems.jsonl", tmp_path / "docs")
    page = (ROOT / "docs" / "python.md").read_text()
    first, *_, second = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(first.splitlines()) - first.count("\n\n") <= 25
    exec(compile(first, "example", "exec"), {})
    out = capsys.readouterr().out
    assert "'eval/avg_at_n'" in out and "runs/python/report.html" in out
    exec(compile(second, "example", "exec"), {})
    assert "'step': 3" in capsys.readouterr().out
    for program in Results(Path("runs/python")).rollouts(3)[0]["programs"]:
        assert f"{program['reward']} {program['program']}" in out
