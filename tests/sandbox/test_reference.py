import pytest

from sandbox import Job, Limits, OutsideLanguage, ReferenceCache, SandboxError, SandboxPool

DOUBLE = "def f(x):\n    return x * 2\n"


def values(judge, *calls: str, program: str = DOUBLE) -> list[str | None]:
    return [outcome.value for outcome in judge.execute([Job(program, calls, is_reference=True)])[0].outcomes]


def test_each_call_of_a_reference_is_computed_once(jail: SandboxPool):
    cache = ReferenceCache(jail)
    assert values(cache, "f(1)", "f(2)", "f(1)") == ["2", "4", "2"]
    assert (cache.hits, cache.misses) == (0, 2)
    assert values(cache, "f(2)", "f(3)") == ["4", "6"]
    assert (cache.hits, cache.misses) == (1, 3)
    assert values(cache, "f(3)", "f(1)") == ["6", "2"]
    assert (cache.hits, cache.misses) == (3, 3)


def test_another_program_or_other_limits_are_another_reference(jail: SandboxPool):
    cache = ReferenceCache(jail)
    assert values(cache, "f(1)") == ["2"]
    assert values(cache, "f(1)", program="def f(x):\n    return x * 3") == ["3"]
    cache.execute([Job(DOUBLE, ("f(1)",), Limits(memory_mb=100), is_reference=True)])
    assert cache.misses == 3


def test_failures_are_remembered_but_not_time_outs(jail: SandboxPool):
    cache = ReferenceCache(jail)
    program = "def f(x):\n    while x: pass\n    return 1 / x"
    job = Job(program, ("f(0)", "f(1)"), is_reference=True)
    first, second = cache.execute([job])[0], cache.execute([job])[0]
    assert [outcome.status.value for outcome in second.outcomes] == ["raised", "timed out"]
    assert (first.outcomes, cache.hits) == (second.outcomes, 1)
    broken = Job("1 / 0", ("f(1)",), is_reference=True)
    assert cache.execute([broken])[0].outcomes == cache.execute([broken])[0].outcomes


def test_the_cache_is_bounded_and_keeps_what_was_used_last(jail: SandboxPool):
    cache = ReferenceCache(jail, characters=800)  # three entries: one of them is the program's loading
    values(cache, "f(1)")
    values(cache, "f(2)")
    values(cache, "f(1)")
    values(cache, "f(3)")
    hits = cache.hits
    values(cache, "f(1)")
    assert cache.hits == hits + 1
    values(cache, "f(2)")
    assert cache.hits == hits + 1


def test_a_failure_of_the_judge_is_passed_on(jail: SandboxPool):
    with pytest.raises(OutsideLanguage):
        values(ReferenceCache(jail), "f(1")


def test_other_programs_are_passed_on_and_never_remembered(jail: SandboxPool):
    cache = ReferenceCache(jail)
    job = Job("import time\ndef f():\n    return time.perf_counter_ns()\n", ("f()",))
    assert cache.execute([job]) != cache.execute([job])
    assert (cache.hits, cache.misses) == (0, 0)


def test_the_judge_behind_is_closed_with_the_cache():
    judge = SandboxPool(workers=1, backend="process")
    with ReferenceCache(judge) as cache:
        assert values(cache, "f(1)") == ["2"]
    with pytest.raises(SandboxError):
        judge.submit(Job(DOUBLE))
