from pathlib import Path

import pytest
from program_files import read_programs

from sandbox import Job, SandboxPool
from sandbox.host.stateless import keeps_no_state

PROGRAMS = read_programs(Path(__file__).with_name("stateless_programs.txt"))
KEEPS, KEEPS_NOTHING = PROGRAMS["keep state"], PROGRAMS["keep nothing"]


@pytest.mark.parametrize("kind", KEEPS)
def test_a_program_that_may_keep_state_is_taken_for_one(kind):
    assert not keeps_no_state(KEEPS[kind])


@pytest.mark.parametrize("kind", KEEPS_NOTHING)
def test_common_programs_are_known_to_keep_nothing(kind):
    assert keeps_no_state(KEEPS_NOTHING[kind])


@pytest.mark.parametrize("kind", [kind for kind in KEEPS if kind not in ("not Python", "addresses")])
def test_each_call_finds_a_program_as_it_was_loaded(jail: SandboxPool, kind):
    (execution,) = jail.execute([Job(KEEPS[kind], ("f(1)", "f(1)", "f(1)"))])
    assert execution.outcomes[0] == execution.outcomes[1] == execution.outcomes[2]


@pytest.mark.parametrize("kind", [kind for kind in KEEPS if kind != "addresses"])  # which differ anyway
def test_calls_of_one_job_are_answered_as_those_of_many(jail: SandboxPool, kind):
    calls = ("f(0)", "f(1)", "f(2)", "f(0)")
    (together,) = jail.execute([Job(KEEPS[kind], calls)])
    assert list(together.outcomes) == [job.outcomes[0] for job in jail.execute([Job(KEEPS[kind], (c,)) for c in calls])]


def test_calls_together_share_one_process(jail: SandboxPool):
    (execution,) = jail.execute([Job(KEEPS["a counter"], ("f(1)", "f(1)", "f(1)"), together=True)])
    assert [outcome.value for outcome in execution.outcomes] == ["1", "2", "3"]


def test_what_a_call_used_up_is_not_missing_for_the_next(jail: SandboxPool):
    # Self-referring lists are not freed with the call, and would fill the process's memory.
    program = "def f(x):\n    junk = [0] * (4 * 10 ** 6)\n    junk.append(junk)\n    return x"
    calls = tuple(f"f({i})" for i in range(40))
    (execution,) = jail.execute([Job(program, calls)])
    assert [outcome.value for outcome in execution.outcomes] == [str(i) for i in range(40)]


def test_only_attributes_that_plain_values_have_may_be_read():
    assert keeps_no_state("def f(text):\n    return text.upper().split()")
    assert not keeps_no_state("def f(frame):\n    return frame.f_globals")
