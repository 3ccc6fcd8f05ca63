import argparse
import math
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import jax

from codea1_jax.cli._output import log_to_stderr, say
from codea1_jax.cli._runtime import DONE
from codea1_jax.common.chips import GIB, Hardware, cpu_hardware, find_hardware, hardware_of
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically
from codea1_jax.common.words import counted
from codea1_jax.config import ModelConfig, SandboxConfig
from codea1_jax.config.presets import CONFIG_FILE
from codea1_jax.config.reasons import as_yaml
from codea1_jax.doctor.host import existing
from codea1_jax.game.prompts import chat_prompts, plain_prompts
from codea1_jax.models.flops import parameters
from codea1_jax.models.tokenizer import Tokenizer, load_tokenizer
from codea1_jax.models.weights import SMALL_FILES, resolve
from codea1_jax.plan.own_run import SMALL, Known, OwnRun, TokenLengths, choose
from codea1_jax.plan.planned_run import model_shape
from codea1_jax.run.rundir import RUN_FOLDER
from codea1_jax.runtime.devices import start_devices
from codea1_jax.training.fitting import free_on_host
from codea1_jax.training.parts import make_judge
from codea1_jax.training.questions import drop_unsound
from codea1_jax.training.sources import load_problems
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests

ON_CPU, ON_ACCELERATORS = "HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen2.5-Coder-1.5B-Instruct"
SHOWN = 3  # refusals
MEASURED = 2_000  # questions whose tokens are counted, of however many


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, help="a new directory: for config.yaml, and for the run below it")
    parser.add_argument(
        "--data", required=True, help="your questions: a file or folder, or a dataset that `codea1 data` prepared"
    )
    parser.add_argument(
        "--model", help=f"directory or Hub id of the base model; default: {ON_ACCELERATORS}, on a CPU {ON_CPU}"
    )
    parser.add_argument("--topology", help="rtx-4090, h100:8, v5e:2x4, ...; or cpu; default: what is here")
    parser.add_argument(
        "--no-jail", action="store_true", help="where no jail can be made, run references, and programs, without one"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    file = options.directory / CONFIG_FILE
    if file.exists():
        raise UserError(f"{file} is there already; change it, or choose another directory")
    if not existing(options.directory).is_dir() or str(options.directory).startswith("gs:"):
        raise UserError(f"{options.directory} cannot be a directory of this machine; choose another")
    log_to_stderr()
    known = _known(options)
    chosen = choose(known)
    options.directory.mkdir(parents=True, exist_ok=True)
    forecast = _forecast(chosen, known.where)
    count = counted(len(known.problems), "question")
    heading = (f"What `codea1 init` chose for {count} on {known.where}: change what you like.", forecast)
    write_atomically(file, as_yaml(chosen.preset, heading))
    print(f"{file}: {len(chosen.train)} questions to train on, {len(chosen.heldout)} held out\n{forecast}")
    for note in _notes(chosen):
        print(note)
    folder, sft = (shlex.quote(str(each)) for each in (options.directory, options.directory / "sft"))
    print(f"next: codea1 doctor {folder} && {_training(chosen, folder, sft)}")
    print(f"meanwhile, for curves: codea1 report --follow {sft if _imitates_first(chosen) else folder}")
    return DONE


def _known(options: argparse.Namespace) -> Known:
    hardware = _hardware(options.topology)
    name = options.model or (ON_CPU if hardware.platform == "cpu" else ON_ACCELERATORS)
    shape = model_shape(ModelConfig(pretrained=name))
    tokenizer = load_tokenizer(resolve(name, SMALL_FILES))
    problems = _usable(options.data, SandboxConfig(fallback="process" if options.no_jail else "none"))
    return Known(
        source=options.data,
        directory=str(options.directory / RUN_FOLDER),
        model=name,
        problems=problems,
        lengths=_lengths(problems, tokenizer, short=parameters(shape) < SMALL),
        shape=shape,
        chats=tokenizer.hf.chat_template is not None,
        thinks="enable_thinking" in str(tokenizer.hf.chat_template),
        hardware=hardware,
        free=shutil.disk_usage(existing(options.directory)).free,
        jailed=not options.no_jail,
    )


def _hardware(name: str | None) -> Hardware:
    host = cpu_hardware(len(os.sched_getaffinity(0)), free_on_host())
    if name == "cpu":
        return host
    if name is not None:
        return find_hardware(name)
    start_devices()
    devices = jax.devices()
    if devices[0].platform == "cpu":
        return host
    known = hardware_of(devices)
    if known is None:
        raise UserError(f"{devices[0].device_kind} is not known hardware; pass --topology with what is most like it")
    return known


def _usable(source: str, judge: SandboxConfig) -> Sequence[Problem]:
    loaded = load_problems(source, "--data")
    say(f"running the references of {counted(len(loaded.problems), 'question')}")
    with make_judge(judge) as running:
        loaded = drop_unsound(loaded, running)
    for refusal in loaded.refused[:SHOWN]:
        say(f"refused: {refusal.id}: {refusal.reason}")
    if len(loaded.refused) > SHOWN:
        say(f"and {len(loaded.refused) - SHOWN} more: codea1 data validate {shlex.quote(source)}")
    return loaded.problems


def _lengths(problems: Sequence[Problem], tokenizer: Tokenizer, *, short: bool) -> TokenLengths:
    """In the model's own tokens, of at most `MEASURED` questions. short: suites are asked for shortly."""
    chats, some = tokenizer.hf.chat_template is not None, problems[:: len(problems) // MEASURED + 1]
    prompts = chat_prompts(tokenizer, 8, short=short) if chats else plain_prompts(tokenizer)

    def most(counts: Iterable[int]) -> int:
        ordered = sorted(counts)
        return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else 0

    return TokenLengths(
        code_prompt=most(len(prompts.code(problem)) for problem in some),
        test_prompt=most(len(prompts.test(problem, "")) for problem in some),
        reference=most(len(tokenizer.encode(problem.solution)) for problem in some),
        golden_test=most(len(tokenizer.encode(test)) for problem in some for test in plain_golden_tests(problem)),
    )


def _forecast(chosen: OwnRun, where: str) -> str:
    hours, kept = chosen.seconds / 3600, chosen.config.checkpoint.keep_last + 1
    step, evaluation = (
        f"{each:.1f} s" if each < 10 else f"{each:.0f} s" for each in (chosen.step_seconds, chosen.evaluation_seconds)
    )
    memory = "" if chosen.memory is None else f"; {chosen.memory / GIB:.3g} GiB of memory"
    return (
        f"forecast without compiling, nothing was measured: {counted(chosen.steps, 'step')} of {step} and "
        f"{counted(chosen.evaluations, 'evaluation')} of {evaluation}, with the start {hours:.1f} h of "
        f"{where}; checkpoints of up to {kept * chosen.checkpoint / GIB:.3g} GiB{memory}"
    )


def _notes(chosen: OwnRun) -> Iterator[str]:
    untested = sum(not problem.golden_tests for problem in chosen.heldout)
    if untested:
        yield f"note: {untested} held-out questions have no golden tests, so nothing is measured by them"
    if _imitates_first(chosen):
        yield "note: so small a Test LLM states few right answers; it imitates your golden tests first (sft)"


def _imitates_first(chosen: OwnRun) -> bool:
    tested = any(problem.golden_tests for problem in chosen.heldout)
    return parameters(chosen.run.model) < SMALL and tested


def _training(chosen: OwnRun, folder: str, sft: str) -> str:
    if not _imitates_first(chosen):
        return f"codea1 train {folder}"
    imitation = f"codea1 train {folder} method.name=sft train.steps=24 eval.every=6 run.directory={sft}"
    reference = "" if chosen.config.lora is None else " test.grpo.kl_coef=0"
    return f"{imitation} && codea1 train {folder} test.start={sft}{reference}"
