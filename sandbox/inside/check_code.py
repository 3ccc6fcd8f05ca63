"""Inside the jail: execute a dataset's check code, in whichever of the usual forms it comes.

The forms: a function ``check(candidate)``; unittest classes; functions and classes for pytest (those that need no
fixtures); plain assert statements. `pytest` itself is replaced by a small stand-in with `raises`, `approx` and
`mark.parametrize`.
"""

import math
import sys
import types
from collections.abc import Mapping
from typing import Any

CHECK_FILE = "check.py"


def run_check(check: str, candidate: Any, names: dict[str, Any]) -> None:
    """Execute `check`, which sees the program's functions under their `names`. Raises AssertionError on failure."""
    sys.modules.setdefault("pytest", _stand_in_for_pytest())
    module = types.ModuleType("check")
    sys.modules["check"] = module
    scope = module.__dict__
    scope.update(names)
    exec(compile(check, CHECK_FILE, "exec"), scope)
    whole = scope.get("check")
    if isinstance(whole, types.FunctionType) and whole is not names.get("check") and whole.__module__ == "check":
        _call(whole, candidate)
        return
    for name, member in list(scope.items()):
        if getattr(member, "__module__", None) != "check":
            continue
        if isinstance(member, type):
            _run_class(name, member)
        elif callable(member) and name.startswith("test"):
            _run_function(member)


def _run_class(name: str, tests: type) -> None:
    unittest = sys.modules.get("unittest")
    if unittest is not None and issubclass(tests, unittest.TestCase):
        _run_unittest(unittest, tests)
    elif name.startswith("Test"):
        for method in [method for method in dir(tests) if method.startswith("test")]:
            instance = tests()
            getattr(instance, "setup_method", lambda: None)()
            _run_function(getattr(instance, method))


def _run_function(test: Any) -> None:
    for case in getattr(test, "cases", [{}]):
        _call(test, **case)


def _call(test: Any, *args: Any, **kwargs: Any) -> None:
    """Calls it. Raises TypeError where that ran nothing: a coroutine or a generator would pass whatever it asserts."""
    if hasattr(test(*args, **kwargs), "send"):
        raise TypeError(f"{test.__name__} is async or a generator, which is not supported here")


def _run_unittest(unittest: Any, tests: type) -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(tests).run(result)
    for test, trace in (*result.failures, *result.errors):
        raise AssertionError(f"{test}: {trace.strip().splitlines()[-1]}")
    for test, reason in result.skipped:
        raise AssertionError(f"{test} was skipped: {reason}")
    if result.unexpectedSuccesses:
        raise AssertionError(f"{result.unexpectedSuccesses[0]} succeeded unexpectedly")


def _stand_in_for_pytest() -> types.ModuleType:
    module = types.ModuleType("pytest")
    module.raises = _Raises  # type: ignore[attr-defined]
    module.approx = _Approx  # type: ignore[attr-defined]
    module.mark = types.SimpleNamespace(parametrize=_parametrize)  # type: ignore[attr-defined]
    return module


def _parametrize(names: Any, values: Any) -> Any:
    """``@pytest.mark.parametrize("a, b", [(1, 2), ...])``; several multiply."""
    single = isinstance(names, str) and "," not in names
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(parameters, [value] if single else value, strict=True)) for value in values]

    def mark(test: Any) -> Any:
        test.cases = [{**earlier, **case} for case in cases for earlier in getattr(test, "cases", [{}])]
        return test

    return mark


class _Raises:
    def __init__(self, expected: Any, match: str | None = None) -> None:
        self.expected = expected
        self.match = match
        self.value: BaseException | None = None

    def __enter__(self) -> "_Raises":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> bool:
        if error is None:
            raise AssertionError(f"did not raise {self.expected}")
        self.value = error
        if not isinstance(error, self.expected):
            return False
        if self.match is not None:
            import re  # noqa: PLC0415  (few checks need it)

            assert re.search(self.match, str(error)), f"{error} does not match {self.match}"
        return True


class _Approx:
    """``value == pytest.approx(expected)``, for numbers, and for sequences, dicts and arrays of them."""

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numpy's values leave the comparison to this class

    def __init__(self, expected: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False) -> None:
        self.expected = expected
        self.rel = rel if rel is not None else 1e-6 if abs is None else 0.0
        self.abs = abs if abs is not None else 1e-12
        self.nan_ok = nan_ok

    def __eq__(self, actual: object) -> bool:
        return self._same(actual, self.expected)

    def _same(self, actual: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            alike = isinstance(actual, Mapping) and actual.keys() == expected.keys()
            return alike and all(self._same(actual[key], expected[key]) for key in expected)
        if getattr(expected, "shape", ()):
            actual, expected = getattr(actual, "tolist", lambda: actual)(), expected.tolist()
        if hasattr(expected, "__getitem__") and not isinstance(expected, str | bytes):
            alike = hasattr(actual, "__len__") and len(actual) == len(expected)
            return alike and all(map(self._same, actual, expected))
        if getattr(actual, "shape", ()):
            return bool(actual.size) and all(self._close(item, expected) for item in actual.flat)
        return self._close(actual, expected)

    def _close(self, actual: Any, expected: Any) -> bool:
        if _is_bool(expected):
            return _is_bool(actual) and bool(actual == expected)
        if actual == expected:
            return True
        decimal: Any = sys.modules.get("decimal")
        unit = decimal.Decimal if decimal and isinstance(expected, decimal.Decimal) else float
        try:
            size = abs(expected)
            if math.isnan(size):
                return self.nan_ok and math.isnan(abs(actual))
            tolerance = max(unit(str(self.rel)) * size, unit(str(self.abs)))
            return not math.isinf(size) and bool(abs(expected - actual) <= tolerance)
        except TypeError:  # what has no distance is equal or not
            return False


def _is_bool(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # as numpy 1 called its own
