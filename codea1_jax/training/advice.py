"""Why a run, or a step, cannot teach anything, and what to change: one line for each reason. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from codea1_jax.common.words import counted
from codea1_jax.config import METHODS, Config, Role, RolloutConfig
from codea1_jax.game.rollouts import ProgramRollout, Response, StepRollouts, SuiteRollout
from codea1_jax.learn import Trajectory

FEWEST_STEPS = 20  # with fewer, the noise of the evaluations hides any trend
FEWEST_POINTS = 5  # of a curve of evaluations
# Nats a token, more than rounding makes sampler and learner differ by, in the type of activations.
ROUNDING = {"float32": 1e-3, "bfloat16": 0.05}


def schedule_advice(config: Config, trained: int, heldout: int) -> Iterator[str]:
    """Why a run cannot show whether it learns: too few steps, or evaluations that are missing, rare or one-sided.

    trained, heldout: the numbers of questions that it trains on, and that it holds out.
    """
    method, train = METHODS[config.method.name], config.train
    steps = train.total_steps(trained)
    if not steps:
        return
    if steps < FEWEST_STEPS and train.steps is None:
        fitting = max(1, train.epochs * trained // FEWEST_STEPS)
        yield (
            f"{counted(trained, 'question')}, train.questions={train.questions} a step and train.epochs={train.epochs} "
            f"make {counted(steps, 'step')}, too few to see a trend: set train.questions={fitting}, or train.epochs"
        )
    every = config.eval.every
    if not every:
        yield "nothing is evaluated: set eval.every"
        return
    if not (heldout or config.eval.datasets):
        yield "nothing is evaluated: no question is held out; set data.heldout_share or data.heldout=FILE"
        return
    points = -(-steps // every) + 1  # before the first step, and after the last
    if steps >= FEWEST_STEPS and points < FEWEST_POINTS:
        yield f"eval.every={every} of {steps} steps gives {points} points of a curve: set eval.every={steps // 10}"
    if "test" in method.roles and not heldout:
        yield (
            "no question is held out, so nothing shows whether the Test LLM improves: set data.heldout_share=0.1, or "
            "data.heldout=FILE"
        )


def step_advice(rollouts: StepRollouts, rollout: RolloutConfig) -> Iterator[str]:
    """Which policies a step taught nothing, because all responses of each group earned the same, and why."""
    for name, groups in rollouts.groups.items():
        teaches = any(isinstance(each, Trajectory) and each.advantage for group in groups for each in group)
        if rollouts.questions and not teaches:
            programs = [program for question in rollouts.questions for program in question.programs]
            suites = [suite for program in programs for suite in program.suites if suite.trained_on]
            code = name == "code"
            why = _why_programs_are_equal(programs, rollout) if code else _why_suites_are_equal(suites, rollout)
            yield f"this step taught {name} nothing: {why}"


def mismatch_advice(config: Config, metrics: Mapping[str, float]) -> Iterator[str]:
    """Which policies were not sampled as they are learned from, by the log-probabilities of a step's tokens."""
    for name, model in config.models.items():
        difference = metrics.get(f"{name}/rollout_difference_mean", 0.0)
        if difference > ROUNDING[model.compute_dtype]:
            yield (
                f"{name} is not sampled as it is learned from: a token's log-probability differs by {difference:.3f} "
                "nats, more than rounding; do both have the same weights and adapters, temperature and tokens?"
            )


def compiling_advice(metrics: Mapping[str, float]) -> Iterator[str]:
    """That a step after the first one waited for a compiler, by its metrics."""
    if programs := round(metrics["compiled/programs"]):
        yield f"{counted(programs, 'program')} compiled in {metrics['compiled/seconds']:.1f} s, after the first step"


def _why_programs_are_equal(programs: Sequence[ProgramRollout], rollout: RolloutConfig) -> str:
    if unfinished := _why_unread((p.response for p in programs), [p.program for p in programs], "code", rollout):
        return unfinished
    if not any(program.valid for program in programs):
        return "no program runs; look at them in the report, and take easier questions or a stronger model"
    faced = [v.passed for p in programs for v in (*p.book, *(v for suite in p.suites for v in suite.verdicts))]
    if not faced:
        return "no suite had a test that the reference answers; begin with sft, or a stronger Test LLM"
    if all(faced):
        return "every program passed every test that it met; take harder questions, or more suites (rollout.suites)"
    if not any(faced):
        return "no program passed a test; take easier questions, or more programs of each (rollout.samples)"
    return "the programs of each question earned the same; take more of each (rollout.samples)"


def _why_suites_are_equal(suites: Sequence[SuiteRollout], rollout: RolloutConfig) -> str:
    if unread := _why_unread((s.response for s in suites), [s.suite.tests for s in suites], "test", rollout):
        return unread
    if all(suite.validated.invalid >= len(suite.suite.tests) for suite in suites):
        return "no test states the right value; begin with sft, or a stronger Test LLM"
    return "the suites against each program earned the same; take more of each (rollout.suites)"


def _why_unread(
    responses: Iterable[Response], contents: Sequence[object], role: Role, rollout: RolloutConfig
) -> str | None:
    """Why what should be in the responses was not there, or not whole; None where some of it was."""
    key, ends = f"rollout.{role}_tokens", [response.completion for response in responses]
    if ends and all(end is not None and not end.finished for end in ends):
        return f"all responses were cut off at {getattr(rollout, f'{role}_tokens')} tokens; raise {key}"
    if any(contents):
        return None
    content = "a program" if role == "code" else "a test"
    return f"in no response {content} could be read; look at the responses in the report, and at the prompts' style"
