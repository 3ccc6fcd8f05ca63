import ast
from pathlib import Path

import pytest
from program_files import read_programs

from sandbox import Job, Outcome, Rejected, SandboxPool, parse_test, same

SUITES = {
    head.partition(": ")[0]: (suite, head.partition(": ")[2].split(", "))
    for head, suite in read_programs(Path(__file__).with_name("hostile_suites.txt"))[""].items()
}
REFERENCE = "def f(x):\n    return x\n"


def ends_of(suite: str, pool: SandboxPool) -> list[str]:
    """What becomes of each statement when it is validated against the reference."""
    try:
        statements = ast.parse(suite).body
    except SyntaxError:
        return ["unreadable"]
    return [end_of(statement, pool) for statement in statements]


def end_of(statement: ast.stmt, pool: SandboxPool) -> str:
    test = parse_test(statement, "f")
    if isinstance(test, Rejected):
        return "rejected"
    reference, stated = pool.execute([Job(REFERENCE, (test.call,), is_reference=True), Job("", (test.stated,))])
    return comparison(reference.outcomes[0], stated.outcomes[0].value)


def comparison(reference: Outcome, stated: str | None) -> str:
    if reference.value is None:
        return reference.status.value
    if not same(reference.value, reference.value):
        return "not comparable"
    if stated is None:
        return "no answer"
    return "kept" if same(reference.value, stated) else "wrong"


@pytest.mark.parametrize("name", SUITES)
def test_a_hostile_suite_gains_nothing_and_harms_nobody(jail: SandboxPool, name: str):
    suite, allowed = SUITES[name]
    ends = ends_of(suite, jail)
    assert len(ends) == len(allowed), ends
    assert all(end in choices.split("|") for end, choices in zip(ends, allowed, strict=True)), ends
    assert jail.restarts == 0


def test_there_are_at_least_twenty_hostile_suites():
    assert len(SUITES) >= 20
