"""A run on your own questions: its settings, each with its reason, from what is known of questions, model and hardware.

Nothing is compiled: memory and seconds are arithmetic (`search`), and an eighth of a device is left for what that
misses.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import yaml

from codea1_jax.common.chips import CPU, GIB, Hardware
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted
from codea1_jax.config import Config, load
from codea1_jax.config.reasons import Setting, Settings, as_overrides
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import parameters
from codea1_jax.plan.assumptions import START_SECONDS
from codea1_jax.plan.memory import saved
from codea1_jax.plan.planned_run import PlannedRun, make_planned_run
from codea1_jax.plan.search import estimated_sampling, estimated_seconds, host_memory, rank
from codea1_jax.plan.workload import evaluation_loads
from data_pipeline import Problem
from data_pipeline.reading import hold_out

FEWEST_QUESTIONS, FEWEST_TRAINED = 12, 8
STEPS_AN_EPOCH = 20  # should have, so that a step's questions are as many as allow this
ENOUGH_STEPS, MOST_EPOCHS = 60, 10
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
LOST_SECONDS = 1200.0  # of work, at most, where a machine dies
SMALL, TINY = 1_000_000_000, 300_000_000  # parameters, below which a model is asked for less than the paper's
FILL = 0.5  # the mean of prompts and responses, as a share of the longest: assumed
USED = 0.875  # of a device, by arithmetic
SLOWER = 1.6  # than the estimate: of the shipped plans, compiled programs are expected to take 1.2 to 1.9 times as long
ADAPTERS = "parts/lora"


class Scale(NamedTuple):
    questions: int  # of a step, at most
    steps: int  # at most
    points: int  # of every curve, besides the one before training


# Of accelerators; of a CPU, where a step takes a minute or more; of a model that is not tiny there: several.
LARGE, MEDIUM, LITTLE = Scale(64, 400, 10), Scale(4, 60, 10), Scale(2, 30, 4)


@dataclass(frozen=True)
class TokenLengths:
    """The longest of each, except the longest 1%: a question's prompt, a test prompt without its program, a
    reference, a golden test (0: there are none).
    """

    code_prompt: int
    test_prompt: int
    reference: int
    golden_test: int


@dataclass(frozen=True)
class Known:
    """What a run is chosen by. source, directory, model: as the configuration will name them.

    problems: those that can be used. chats: the model has a chat template. thinks: which asks whether it is to think.
    free: bytes of the disk. jailed: nothing is judged without a jail.
    """

    source: str
    directory: str
    model: str
    problems: Sequence[Problem]
    lengths: TokenLengths
    shape: Architecture
    chats: bool
    thinks: bool
    hardware: Hardware
    free: int
    jailed: bool = True

    @property
    def on_cpu(self) -> bool:
        return self.hardware.platform == CPU

    @property
    def scale(self) -> Scale:
        return LARGE if not self.on_cpu else MEDIUM if parameters(self.shape) < TINY else LITTLE

    @property
    def where(self) -> str:
        return counted(self.hardware.chip.host_cores, "CPU core") if self.on_cpu else self.hardware.name

    def keeps(self, run: PlannedRun) -> int | None:
        """Checkpoints to keep, two or one, where the disk holds one more while it is written; None: it does not."""
        size = saved(run.config, run.shapes)
        return next((kept for kept in (2, 1) if (kept + 1) * size <= 0.9 * self.free), None)


@dataclass(frozen=True)
class OwnRun:
    """What was chosen. base: the preset that the settings start from. seconds: forecast, of a step or an evaluation."""

    base: str | None
    settings: dict[str, Setting]
    run: PlannedRun
    train: Sequence[Problem]
    heldout: Sequence[Problem]
    steps: int
    points: int
    step_seconds: float
    evaluation_seconds: float

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def preset(self) -> Settings:
        why = "adapters of both: all parameters take more memory, disk or time than there is"
        return self.settings if self.base is None else {"compose": Setting([self.base], why)} | self.settings

    @property
    def every(self) -> int:
        return max(1, self.steps // self.points)

    @property
    def evaluations(self) -> int:
        return -(-self.steps // self.every) + 1

    @property
    def seconds(self) -> float:
        start = START_SECONDS[self.run.platform]
        return start + self.steps * self.step_seconds + self.evaluations * self.evaluation_seconds

    @property
    def memory(self) -> float | None:
        """Bytes of the host, forecast; None where devices have their own."""
        return host_memory(self.run) if self.run.platform == CPU else None

    @property
    def checkpoint(self) -> int:
        return saved(self.config, self.run.shapes)


def choose(known: Known) -> OwnRun:
    """The run. Raises UserError where questions, memory or disk do not suffice for any."""
    if len(known.problems) < FEWEST_QUESTIONS:
        raise UserError(
            f"{known.source} has {counted(len(known.problems), 'usable question')}; a run takes at least "
            f"{FEWEST_QUESTIONS}, most of them to train on, and better hundreds"
        )
    train, heldout, split = _split(known)
    if len(train) < FEWEST_TRAINED or not heldout:
        raise UserError(
            f"{known.source} has too few different solutions: {len(train)} of its questions would be trained on and "
            f"{len(heldout)} held out, for all questions of one solution are on one side"
        )
    scale = known.scale
    sizes = (size for size in (64, 32, 16, 8) if size <= scale.questions and len(train) // size >= STEPS_AN_EPOCH)
    questions = next(sizes, min(4, scale.questions))
    reason = f"a step's, so that an epoch has {len(train) // questions} steps"
    settings = {**_identity(known), **split, **_played(known), "train.questions": Setting(questions, reason)}
    base, settings, run = _laid_out(known, settings)
    slower, loads = 1.0 if known.on_cpu else SLOWER, evaluation_loads(run.config, len(heldout))
    step = slower * estimated_seconds(run, known.hardware, FILL)
    evaluation = slower * sum(estimated_sampling(run, known.hardware, each, FILL) for each in loads)
    epoch = len(train) // questions
    enough = -(-ENOUGH_STEPS // epoch) * epoch  # whole epochs
    steps = min(scale.steps, MOST_EPOCHS * epoch, enough)
    draft = OwnRun(base, settings, run, train, heldout, steps, scale.points, step, evaluation)
    settings = {**settings, **_schedule(draft), **_saves(known, draft)}
    config = load(Config, base, as_overrides(settings))
    return replace(draft, settings=settings, run=replace(run, config=config))


# --- what is asked, and how long the answers may be ------------------------------------------------------


def _split(known: Known) -> tuple[Sequence[Problem], Sequence[Problem], Settings]:
    count, most = len(known.problems), 32 if known.on_cpu else 256
    wanted = min(most, max(4, count // 10, min(16, count // 5)))
    solutions = len({problem.solution.strip() for problem in known.problems})
    at_most = max(1, wanted * solutions // count)  # wordings of one solution are held out together
    share = next((each for each in SHARES if len(hold_out(known.problems, each)[1]) >= wanted), SHARES[-1])
    train, heldout = hold_out(known.problems, share, at_most)
    few = ": enough to see that it works, too few to conclude from" if len(train) < 100 else ""
    settings = {
        "data.source": Setting(known.source, f"{len(train):,} of its questions are trained on{few}"),
        "data.heldout_share": Setting(share, "of the solutions, at most, are held out, chosen by a hash"),
        "data.heldout_problems": Setting(at_most, f"solutions are held out: {len(heldout)} questions, to measure by"),
        "eval.samples": Setting(4 if known.on_cpu else 8, "programs of each in an evaluation"),
    }
    return train, heldout, settings


def _identity(known: Known) -> Settings:
    size, cpu = parameters(known.shape), known.on_cpu
    settings = {
        "run.directory": Setting(known.directory, "what the run writes"),
        "model.pretrained": Setting(
            known.model, f"{size / 1e6:,.{int(size < 1e7)}f} million parameters, in both roles"
        ),
        "model.compute_dtype": Setting(
            "float32" if cpu else "bfloat16", f"what {known.hardware.kind} computes fast in"
        ),
    }
    if not known.chats:
        settings["prompts.style"] = Setting("plain", "the model has no chat template")
    if known.thinks:
        settings["model.enable_thinking"] = Setting(False, "thoughts would take thousands of tokens")
    if size < SMALL and known.chats:
        settings["method.test_prompt"] = Setting("short", "a small model follows a short request better")
    if not known.jailed:
        settings["sandbox.fallback"] = Setting("process", "programs run WITHOUT a jail where none can be made")
    if not cpu:
        settings["hardware"] = Setting(known.hardware.name, "what the layout below is for")
    return settings


def _played(known: Known) -> Settings:
    lengths, context = known.lengths, known.shape.max_position_embeddings
    tiny, group = parameters(known.shape) < TINY, 4 if known.on_cpu else 8
    suite = 3 if tiny else 4 if known.scale is LITTLE else 8
    program = _whole(2 * lengths.reference + 64)
    tests = _whole(2 * suite * lengths.golden_test + 64) if lengths.golden_test else 256 if tiny else 1024
    code_prompt, test_prompt = _whole(lengths.code_prompt), _whole(lengths.test_prompt + program)
    if max(code_prompt + program, test_prompt + tests) > context:
        raise UserError(
            f"{known.source}: questions of {lengths.code_prompt} tokens, programs of {program} and suites of {tests} "
            f"exceed the context of {known.model}, {context}; leave the longest out, or take another model"
        )
    golden = (
        f"the longest golden test has {lengths.golden_test}" if lengths.golden_test else "there are none to measure"
    )
    few = "a small model states few answers right" if tiny else f"{'half of ' if suite == 4 else ''}the paper's"
    return {
        "rewards.suite_size": Setting(suite, f"tests of a suite: {few}"),
        "rollout.samples": Setting(group, f"programs of a question: {'half of ' if known.on_cpu else ''}the paper's"),
        "rollout.suites": Setting(group, f"suites against each: {'half of ' if known.on_cpu else ''}the paper's"),
        "rollout.code_prompt_tokens": Setting(code_prompt, f"99% of the questions have at most {lengths.code_prompt}"),
        "rollout.test_prompt_tokens": Setting(test_prompt, "the question, and any program of code_tokens"),
        "rollout.code_tokens": Setting(program, f"twice the longest reference, {lengths.reference}, and some words"),
        "rollout.test_tokens": Setting(tests, f"twice {suite} tests and some words: {golden}"),
    }


def _whole(tokens: int) -> int:
    """In whole pages; at least what the smallest program for prompts holds."""
    return max(128, -(-tokens // 32) * 32)


# --- how it learns, and on what -----------------------------------------------------------------------------


def _laid_out(known: Known, settings: Settings) -> tuple[str | None, dict[str, Setting], PlannedRun]:
    """The settings with how they learn and a layout that fits: of all parameters, else of adapters."""
    hardware = known.hardware
    spared = replace(hardware, chip=replace(hardware.chip, memory=int(USED * hardware.chip.memory)))
    for base, learning in ((None, _all_parameters(known)), (ADAPTERS, {}))[known.scale is LITTLE :]:
        tried = {**settings, **learning}

        def reload(overrides: Sequence[str], base: str | None = base, tried: Settings = tried) -> Config:
            return load(Config, base, [*as_overrides(tried), *overrides])

        layout = _cpu_layout(tried, reload, spared) if known.on_cpu else _layout(reload, spared)
        if layout is not None:
            run = make_planned_run(load(Config, base, as_overrides(tried | layout)), hardware)
            if base is not None or known.keeps(run) is not None:
                return base, tried | layout, run
    raise UserError(
        f"{known.model} does not fit {known.where}, nor do adapters over it: take a smaller model, or more devices"
    )


def _all_parameters(known: Known) -> Settings:
    size = parameters(known.shape)
    rate, whose = (2e-5, "with which SmolLM2 135M learned") if size < TINY else (1e-6, "the paper's")
    if TINY <= size < SMALL:
        rate, whose = 5e-6, "between SmolLM2's and the paper's"
    return {f"{policy}.optimizer.learning_rate": Setting(rate, whose) for policy in ("code", "test")}


def _layout(reload: Callable[[Sequence[str]], Config], hardware: Hardware) -> dict[str, Setting] | None:
    blocks = "rollout.block=32"
    ranked = rank(reload([blocks]), hardware, FILL, lambda more: reload([blocks, *more]))
    if not ranked:
        return None
    reasons = {
        "mesh": "how the devices are arranged: the fastest forecast",
        "rollout.rows": "samples decoded at once: the fastest forecast",
        "rollout.cache_tokens": "keys and values that fit next to the models",
        "code.packing": "tokens learned at once that fit",
        "test.packing": "tokens learned at once that fit",
        "model.remat": "full: recomputed, to save memory; dots: kept, where there is room",
        "offload.optimizer": "moments wait in host memory, or nothing would fit",
    }
    layout = {"rollout.block": Setting(32, "tokens of a decoding block: suits accelerators")}
    for override in ranked[0].overrides(reload([blocks])):
        key, _, text = override.partition("=")
        layout[key] = Setting(yaml.safe_load(text), reasons[key])
    if hardware.devices == 1:
        del layout["mesh"]
    if not layout["offload.optimizer"].value:
        del layout["offload.optimizer"]
    return layout


def _cpu_layout(
    settings: Settings, reload: Callable[[Sequence[str]], Config], hardware: Hardware
) -> dict[str, Setting] | None:
    """Small batches, with fewer rows and layers recomputed where memory is short; None if the host's does not hold them
    then.
    """
    longest = {
        role: settings[f"rollout.{role}_prompt_tokens"].value + settings[f"rollout.{role}_tokens"].value
        for role in ("code", "test")
    }
    layout = {"rollout.prefill_tokens": Setting(1024, "tokens of prompts at once, which keep a CPU busy")}
    for role, tokens in longest.items():
        row = max(1024, 2 * tokens)
        packing = {"row_length": row, "micro_batch_tokens": row, "logit_chunk": 128}
        layout[f"{role}.packing"] = Setting(packing, "tokens learned at once: one row, so that little is padding")
    remat = {"none": "kept, where there is room", "full": "recomputed, to save memory"}
    for kept, rows in itertools.product(remat, (64, 16)):
        tried = layout | {
            "rollout.rows": Setting(rows, "samples decoded at once"),
            "model.remat": Setting(kept, f"what a backward pass needs of layers: {remat[kept]}"),
        }
        if host_memory(make_planned_run(reload(as_overrides(tried)), hardware)) <= hardware.chip.memory:
            return tried
    return None


# --- how long, how often ------------------------------------------------------------------------------------


def _schedule(draft: OwnRun) -> Settings:
    epochs = draft.steps / (len(draft.train) // draft.config.train.questions)
    return {
        "train.steps": Setting(draft.steps, f"{epochs:.1f} epochs"),
        "eval.every": Setting(draft.every, f"steps: {draft.evaluations} points of every curve"),
    }


def _saves(known: Known, draft: OwnRun) -> Settings:
    """Checkpoints that the disk holds. Raises UserError if it does not hold two."""
    size, keep = draft.checkpoint, known.keeps(draft.run)
    if keep is None:
        raise UserError(
            f"{known.directory}: two checkpoints take {2 * size / GIB:.1f} GiB, and {known.free / GIB:.1f} are free; "
            "make room, or choose a directory on another disk"
        )
    every = max(1, min(2 * draft.every, int(LOST_SECONDS / draft.step_seconds)))
    return {
        "checkpoint.every": Setting(every, "steps: a crash loses no more; Ctrl-C saves before it stops"),
        "checkpoint.keep_last": Setting(keep, f"of {size / GIB:.3g} GiB each, one more while it is written"),
    }
