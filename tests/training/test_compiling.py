"""What a run compiles is what it lists: all of it before it is called, none after the first step."""

import threading
import time
from collections import Counter

import jax
import pytest
from tiny_run import SETTINGS, first_run

from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.training.loop import evaluate
from codea1_jax.training.parts import make_judge, make_training
from codea1_jax.training.start import compile_ahead, start
from codea1_jax.training.step import learn, play

COMPILED = "/jax/core/compile/backend_compile_duration"  # also of what the cache of programs holds


@pytest.fixture
def events():
    """The thread and the name of everything that JAX compiles."""
    found: list[tuple[str, str]] = []

    def note(event: str, _: float, **about: object) -> None:
        if event == COMPILED:
            found.append((threading.current_thread().name, str(about["fun_name"])))

    jax.monitoring.register_event_duration_secs_listener(note)
    yield found
    jax.monitoring.unregister_event_duration_listener(note)


def test_no_step_after_the_first_compiles_anything():
    lines = [line for line in read_lines(first_run() / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["compiled/programs"] for line in lines[1:]] == [0.0] * 3


@pytest.mark.parametrize(
    ("width", "overrides"), [(24, ()), (40, ("lora={rank: 2}",)), (56, ("method.name=golden", "code.grpo.kl_coef=0"))]
)
def test_a_run_compiles_the_programs_that_it_lists_and_calls_no_others(events, width, overrides):
    # A width that no other test compiles.
    own = (f"model.architecture.intermediate_size={width}", "warm_start=null", "run.directory=unused", "train.steps=3")
    config = load(Config, "micro/a1_paper", [*SETTINGS, *own, *overrides])
    with make_judge(config.sandbox) as judge:
        training = make_training(config, judge)
        programs = compile_ahead(training)
        state, questions = start(training), training.loader()
        started = len(events)  # with what draws weights and, for LoRA, names the base
        evaluate(training, state)
        state, _ = learn(training, state, play(training, state, next(questions)))
        ahead = []
        while len(ahead) < len(programs):  # nobody has waited for those that nobody has called
            time.sleep(0.1)
            ahead = [name for thread, name in list(events) if thread.startswith("compile")]
        kinds = Counter(program.kind for program in programs)
        assert len(ahead) == len(programs) and {"prefill", "decode", "gradient", "update", "fingerprint"} <= set(kinds)
        in_time = {name for thread, name in events[started:] if not thread.startswith("compile")}
        assert in_time.isdisjoint(ahead)
        events.clear()
        state, _ = learn(training, state, play(training, state, next(questions)))
        evaluate(training, state)
        assert events == []
