"""A run directory like a real one: small programs with real bugs, tests with the verdicts they deserve."""

import json
import math
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import yaml

from codea1_jax.run.telemetry import VERSIONS_FILE, Metrics, as_line, rollout_lines, versions, write_rollouts

HOSTILE = (
    "</script><script>alert(1)</script> <!-- & \u2028\u2029 \ud800 \"'` {{data}} ${x} <img src=x onerror=alert(1)>"
)

STEP_SECONDS = 2.0  # from one step's end to the next one's

NOT_PYTHON = "def f(x:\n"
BUGS = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}
WORDS = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}


def write_example_run(run_dir: Path, *, steps: int = 60, seed: int = 0, hostile: bool = False) -> Path:
    """Writes metrics, rollouts of every tenth step, configuration, versions and summary."""
    rng = random.Random(seed)
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / VERSIONS_FILE).write_text(json.dumps(versions()))
    config = {
        "model": {"width": 96, "layers": 4},
        "rollout": {"samples": 8},
        "eval": {"samples": 8},
        "train": {"steps": steps, "seed": seed},
    }
    (run_dir / "config.yaml").write_text(yaml.safe_dump(config))
    with closing(Metrics(run_dir)) as metrics:
        for step in range(steps + 1):
            if step > 0:
                metrics.write(as_line("train", step, _train_line(rng, step / steps)))
            if step % 10 == 0:
                metrics.write(as_line("eval", step, _eval_line(rng, step / steps)))
    _space_out(run_dir / "metrics.jsonl")
    for step in range(10, steps + 1, 10):
        write_rollouts(run_dir, step, rollout_lines(_questions(rng, step, step / steps, hostile)))
    (run_dir / "summary.json").write_text(json.dumps(_summary(seed)))
    return run_dir


def _space_out(metrics: Path) -> None:
    """As if there was a step every STEP_SECONDS."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines = [line | {"time": 1.7e9 + STEP_SECONDS * line["step"]} for line in lines]
    metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _summary(seed: int) -> dict:
    base = {"avg_at_8": 43.1, "test_validity": 47.3, "pass_at_5": 46.0, "mut_at_5": 38.2, "mul": 17.6}
    final = {"avg_at_8": 66.4 + seed / 3, "test_validity": 65.2, "pass_at_5": 63.1, "mut_at_5": 44.9, "mul": 28.3}
    return {"base": base, "final": final, "seconds": {"before_training": 63.0, "training": 125.0, "total": 188.0}}


def _train_line(rng: random.Random, share: float) -> dict[str, float]:
    def near(value: float) -> float:
        return value * rng.uniform(0.93, 1.07)

    line = {
        "code/reward": near(0.62 + 0.2 * share),
        "test/reward": near(0.55 - 0.1 * math.sin(3 * share)),
        "pass_rate": near(0.6 + 0.2 * share),
        "code/valid": min(1.0, near(0.95)),
        "test/validity": near(0.47 + 0.18 * share),
        "test/adversarial": near(0.3 + 0.1 * share),
        "book/tests": round(900 * share * (1.3 - share / 2)),
        "book/questions": round(230 * share),
    }
    for role, tokens, seconds in (("code", 28, 0.2), ("test", 33, 0.95)):
        line |= {
            f"{role}/loss": near(0.02),
            f"{role}/kl": near(0.001 + 0.02 * share),
            f"{role}/entropy": near(0.4 - 0.15 * share),
            f"{role}/grad_norm": near(0.6),
            f"{role}/learning_rate": 1e-6 * min(1.0, 4 * share),
            f"{role}/ratio_mean": near(1.0),
            f"{role}/clip_fraction_high": near(0.01 * share),
            f"{role}/clip_fraction_low": near(0.008 * share),
            f"{role}/clip_fraction_dual": 0.0,
            f"{role}/response_tokens": near(tokens),
            f"{role}/truncated": near(0.01),
            f"{role}/zero_variance": near(0.3),
            f"seconds/update_{role}": near(seconds),
        }
    line |= {"seconds/generate_code": near(0.1), "seconds/generate_tests": near(0.22), "seconds/judge_wait": near(0.15)}
    line |= {"compiled/programs": 0.0, "compiled/seconds": 0.0}
    line["seconds/step"] = sum(value for name, value in line.items() if name.startswith("seconds/"))
    line["seconds/judge_hidden"] = near(0.12)
    return line


def _eval_line(rng: random.Random, share: float) -> dict[str, float]:
    base = {"avg_at_n": (43, 66), "pass_at_1": (43, 66), "pass_at_8": (71, 84), "test_validity": (47, 65)}
    base |= {"kill_rate": (37, 49), "pass_at_5": (46, 63), "mut_at_5": (38, 45), "mul": (17, 28)}
    line = {f"eval/{name}": low + (high - low) * share**0.7 + rng.uniform(-1, 1) for name, (low, high) in base.items()}
    line["eval/pass_at_1"] = line["eval/avg_at_n"]  # as always
    bounds = {f"{name}_{end}": value + by for name, value in line.items() for end, by in (("low", -4.0), ("high", 3.0))}
    return line | bounds | {"seconds/eval": rng.uniform(1.5, 2.0)}


@dataclass(frozen=True)
class Task:
    """A question whose programs differ in one comparison: right, wrong, endless, or not Python."""

    question_id: str
    question: str
    entry_point: str
    template: str
    relation: str
    calls: tuple[str, ...]

    def programs(self) -> list[str]:
        reference = self.template.replace("{relation}", self.relation)
        buggy = self.template.replace("{relation}", BUGS[self.relation])
        endless = buggy.replace("    return", "    while True: pass\n    return", 1)
        return [reference, buggy, endless, NOT_PYTHON]


def _questions(rng: random.Random, step: int, share: float, hostile: bool) -> list[dict]:
    questions = [_question(rng, _threshold_task(number), step, share) for number in range(12)]
    return [*questions, _hostile_question(step)] if hostile else questions


def _threshold_task(number: int) -> Task:
    rng = random.Random(number)
    relation, limit, plus = rng.choice(list(BUGS)), rng.randint(0, 6), rng.randint(1, 3)
    near = [limit - 1, limit, limit + 1]
    return Task(
        question_id=f"micro/{number:04d}",
        question=f"Write f(x): return x + {plus} if x is {WORDS[relation]} {limit}, otherwise {limit}.",
        entry_point="f",
        template=f"def f(x):\n    if x {{relation}} {limit}:\n        return x + {plus}\n    return {limit}\n",
        relation=relation,
        calls=tuple(f"f({rng.choice([*near, rng.randint(-9, 9)])})" for _ in range(24)),
    )


def _question(rng: random.Random, task: Task, step: int, share: float) -> dict:
    reference = task.programs()[0]
    expected = {call: repr(_run(reference, call)) for call in task.calls}
    remembered = list(dict.fromkeys(task.calls))[step // 20 : step // 20 + 4] if step > 10 else []
    sampled = rng.choices(task.programs(), [0.4 + 0.5 * share, 0.6 - 0.4 * share, 0.05, 0.05], k=8)
    return {
        "step": step,
        "question_id": task.question_id,
        "question": task.question,
        "task": "function",
        "entry_point": task.entry_point,
        "reference": reference,
        "judged": {"rtol": 1e-9},
        "prompt": task.question,
        "book_before": [
            {"call": call, "expected": expected[call], "frequency": rng.randint(1, 5)} for call in remembered
        ],
        "programs": [
            _program(rng, task, index, program=program, expected=expected, remembered=remembered)
            for index, program in enumerate(sampled)
        ],
    }


def _program(
    rng: random.Random, task: Task, index: int, *, program: str, expected: dict[str, str], remembered: list[str]
) -> dict:
    def test(call: str) -> dict:
        return {"call": call, "expected": expected[call], "verdict": _verdict(program, call, expected[call])}

    suites = [_suite(rng, j, [test(call) for call in rng.sample(task.calls, 3)]) for j in range(8)]
    for suite in suites:
        suite |= {"trained": index == 2}
    verdicts = [one["verdict"] == "passed" for suite in suites for one in suite["tests"]]
    return {
        "index": index,
        "response": f"```python\n{program}```",
        "program": program,
        "valid": program != NOT_PYTHON,
        "reward": sum(verdicts) / len(verdicts),
        "advantage": rng.gauss(0, 1),
        "book": [test(call) for call in remembered],
        "suite_prompt": f"{task.question}\n{program}",
        "suites": suites,
    }


def _suite(rng: random.Random, index: int, tests: list[dict]) -> dict:
    kept = [] if rng.random() < 0.05 else tests
    return {
        "index": index,
        "response": "\n".join(f"assert {one['call']} == {one['expected']}" for one in tests),
        "reward": rng.random(),
        "advantage": rng.gauss(0, 1),
        "validity": len(kept) / len(tests),
        "adversarial": sum(one["verdict"] != "passed" for one in kept) / len(tests),
        "invalid": len(tests) - len(kept),
        "rejected": [{"text": "assert f.__code__", "reason": "not a call of the entry point"}] if index == 3 else [],
        "tests": kept,
    }


def _verdict(program: str, call: str, expected: str) -> str:
    if "while True" in program:
        return "timed out"
    if program == NOT_PYTHON:
        return "failed"
    return "passed" if repr(_run(program, call)) == expected else "failed"


def _run(program: str, call: str) -> object:
    """Runs a program of this file, none of which is hostile."""
    space: dict[str, Callable] = {}
    exec(program, space)
    return eval(call, space)


def _hostile_question(step: int) -> dict:
    test = {"call": f"f({HOSTILE!r})", "expected": repr(HOSTILE), "verdict": "failed"}
    suite = {"index": 0, "response": HOSTILE, "reward": 0.5, "advantage": 0.0, "tests": [test]}
    suite["rejected"] = [{"text": HOSTILE, "reason": HOSTILE}]
    program = {"index": 0, "program": HOSTILE, "response": HOSTILE, "valid": True, "reward": 0.5, "advantage": 0.0}
    return {
        "step": step,
        "question_id": HOSTILE.replace("\ud800", ""),  # an address can hold no lone surrogate
        "question": HOSTILE,
        "entry_point": HOSTILE,
        "reference": HOSTILE,
        "judged": {},
        "book_before": [{"call": HOSTILE, "expected": HOSTILE, "frequency": 2}],
        "programs": [{**program, "book": [test], "suites": [suite]}],
    }
