"""A round as plain data: rollout records for the run directory, metrics, and what each model learns from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from types import MappingProxyType
from typing import Any

from codea1_jax.game.rollouts import ProgramRollout, QuestionRollout, Response, SuiteRollout
from codea1_jax.game.tasks import task_of
from codea1_jax.learn import Trajectory
from data_pipeline import Problem
from sandbox import Test, Verdict


def code_groups(questions: Iterable[QuestionRollout]) -> list[list[Trajectory]]:
    """Per question, what the Code LLM learns from: its n programs."""
    return [[_trajectory(p.response, p.advantage) for p in q.programs] for q in questions]


def test_groups(questions: Iterable[QuestionRollout]) -> list[list[Trajectory]]:
    """Per question, what the Test LLM learns from: the m suites of each selected candidate."""
    return [
        [_trajectory(s.response, s.advantage) for p in q.programs for s in p.suites if s.trained_on] for q in questions
    ]


def _trajectory(response: Response, advantage: float) -> Trajectory:
    completion = response.completion
    assert completion is not None  # only policies learn, and they answer in tokens
    return Trajectory(
        response.prompt, completion.tokens, advantage, truncated=not completion.finished, logprobs=completion.logprobs
    )


def round_metrics(questions: Sequence[QuestionRollout], *, with_tests: bool) -> dict[str, float]:
    """Means over the round; `pass_rate` is of kept tests on programs that execute. with_tests: suites' metrics too."""
    programs = [p for q in questions for p in q.programs]
    suites = [s for p in programs for s in p.suites]
    on_valid = [v.passed for p in programs if p.valid for s in p.suites for v in s.verdicts]
    of_programs = {"code/reward": fmean(p.reward for p in programs), "code/valid": fmean(p.valid for p in programs)}
    if not with_tests:
        return of_programs
    return {
        **of_programs,
        "test/reward": _mean(s.reward.reward for s in suites),
        "pass_rate": _mean(on_valid),
        "test/validity": _mean(s.reward.validity for s in suites),
        "test/adversarial": _mean(s.reward.adversarial for s in suites),
        "test/rejected": _mean(len(s.suite.rejected) for s in suites),
    }


def book_metrics(questions: Sequence[QuestionRollout]) -> dict[str, float]:
    """What a round did with the mistake book: the share of its tests that programs passed, the share of programs that
    failed one, and how many tests came and went.

    The shares are of programs that execute and met a page with a test, and left out where none did. A test that goes
    and comes back in one step does neither.
    """
    passed = [[verdict.passed for verdict in p.book] for q in questions for p in q.programs if p.valid and p.book]
    shares = {"pass_rate": fmean(chain(*passed)), "relapse": fmean(not all(of) for of in passed)} if passed else {}
    return {
        **{f"book/{name}": share for name, share in shares.items()},
        "book/added": float(sum(len(q.page_after.keys() - q.page_before.keys()) for q in questions)),
        "book/removed": float(sum(len(q.page_before.keys() - q.page_after.keys()) for q in questions)),
    }


def _mean(values: Iterable[float | bool]) -> float:
    values = list(values)
    return fmean(values) if values else 0.0


JUDGED = ("source", "preamble", "atol", "rtol", "seconds", "memory_mb", "checker")
"""What else of a question decides verdicts."""

MAX_RETURNED = 300  # characters that are recorded of what a failed call returned, or of why it did not

Decode = Callable[[Sequence[int]], str]


def question_record(step: int, question: QuestionRollout, decode: Mapping[str, Decode]) -> dict[str, Any]:
    """One line of `rollouts/step_N.jsonl`: a question's whole round. decode: by each role.

    A question's programs answer one prompt, and so do a program's suites: each prompt is decoded and written once.
    """
    problem = question.problem
    return {
        "step": step,
        "question_id": problem.id,
        "question": problem.question,
        "task": problem.task,
        "entry_point": problem.entry_point,
        "reference": problem.solution,
        "judged": {name: getattr(problem, name) for name in JUDGED},
        "prompt": _prompt([p.response for p in question.programs], decode["code"]),
        "book_before": [
            _test_record(problem, test) | {"frequency": count} for test, count in question.page_before.items()
        ],
        "programs": [_program_record(i, p, question, decode["test"]) for i, p in enumerate(question.programs)],
    }


def _program_record(index: int, program: ProgramRollout, question: QuestionRollout, decode: Decode) -> dict[str, Any]:
    own = {test for suite in program.suites for test in suite.validated.kept}
    siblings = {test: v for tests in program.faced for test, v in tests.items() if test not in own and not v.passed}
    return {
        "index": index,
        "response": program.response.text,
        **_tokens(program.response),
        "program": program.program,
        "duplicate_of": program.duplicate_of,
        "valid": program.valid,
        "reward": program.reward,
        "advantage": program.advantage,
        "book": _verdict_records(question.problem, question.retrieved, program.book),
        "failed_of_siblings": _verdict_records(question.problem, [*siblings], [*siblings.values()]),
        "suite_prompt": _prompt([s.response for s in program.suites], decode),
        "suites": [_suite_record(question.problem, j, suite) for j, suite in enumerate(program.suites)],
    }


def _suite_record(problem: Problem, index: int, suite: SuiteRollout) -> dict[str, Any]:
    mistaken = {test.call: test for test in suite.validated.mistaken}
    stated = {mistaken[t.call]: t.stated for t in reversed(suite.suite.tests) if t.call in mistaken}
    return {
        "index": index,
        "response": suite.response.text,
        **_tokens(suite.response),
        "reward": suite.reward.reward,
        "advantage": suite.advantage,
        "validity": suite.reward.validity,
        "adversarial": suite.reward.adversarial,
        "invalid": suite.validated.invalid,
        "rejected": [{"text": r.text, "reason": r.reason} for r in suite.suite.rejected],
        "trained": suite.trained_on,
        "tests": _verdict_records(problem, suite.validated.kept, suite.verdicts, stated),
    }


def _prompt(responses: Sequence[Response], decode: Decode) -> str | None:
    return decode(responses[0].prompt) if responses else None


def _tokens(response: Response) -> dict[str, int]:
    if response.completion is None:  # not a policy's
        return {}
    return {"prompt_tokens": len(response.prompt), "response_tokens": len(response.completion.tokens)}


def _verdict_records(
    problem: Problem,
    tests: Sequence[Test],
    verdicts: Sequence[Verdict],
    stated: Mapping[Test, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """stated: by those tests that stated another answer than the one that is shown."""
    records = []
    for test, verdict in zip(tests, verdicts, strict=True):
        record: dict[str, Any] = _test_record(problem, test) | {"verdict": verdict.status}
        if not verdict.passed:
            record["returned"] = (verdict.value or verdict.detail)[:MAX_RETURNED]
        records.append(record | ({"stated": stated[test]} if test in stated else {}))
    return records


def _test_record(problem: Problem, test: Test) -> dict[str, str]:
    call, expected = task_of(problem).shown(test, problem)
    return {"call": call, "expected": expected}
