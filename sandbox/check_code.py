"""Inside the jail: execute a dataset's check code, in whichever of the usual forms it comes.

The forms: a function ``check(candidate)``; unittest classes; functions and classes for pytest (those that need no
fixtures); plain assert statements. `pytest` itself is replaced by a small stand-in with `raises` and `approx`.
"""

import math
import sys
import types
from collections.abc import Callable
from typing import Any


def run_check(check: str, candidate: Any, names: dict[str, Any]) -> None:
    """Execute `check`, which finds the program's functions under their `names`.

    Raises what the check raises: AssertionError on failure.
    """
    sys.modules.setdefault("pytest", _stand_in_for_pytest())
    module = types.ModuleType("check")
    sys.modules["check"] = module
    scope = module.__dict__
    scope.update(names)
    exec(compile(check, "check.py", "exec"), scope)
    whole = scope.get("check")
    if isinstance(whole, types.FunctionType) and whole is not names.get("check") and whole.__module__ == "check":
        whole(candidate)
        return
    for name, thing in list(scope.items()):
        if getattr(thing, "__module__", None) != "check":
            continue
        if isinstance(thing, types.FunctionType) and name.startswith("test"):
            thing()
        elif isinstance(thing, type):
            _run_class(name, thing)


def _run_class(name: str, tests: type) -> None:
    unittest = sys.modules.get("unittest")
    if unittest is not None and issubclass(tests, unittest.TestCase):
        _run_unittest(unittest, tests)
    elif name.startswith("Test"):
        for method in [method for method in dir(tests) if method.startswith("test")]:
            instance = tests()
            getattr(instance, "setup_method", lambda: None)()
            getattr(instance, method)()


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
    return module


class _Raises:
    """``with pytest.raises(ValueError, match="..."):``"""

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
    """``value == pytest.approx(expected)``, for numbers and for lists, tuples and dicts of them."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expected: Any, rel: float = 1e-6, abs: float = 1e-12) -> None:
        self.expected = expected
        self.close: Callable[[Any, Any], bool] = lambda a, b: math.isclose(a, b, rel_tol=rel, abs_tol=abs)

    def __eq__(self, actual: object) -> bool:
        return self._same(actual, self.expected)

    def _same(self, actual: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            return actual.keys() == expected.keys() and all(self._same(actual[key], expected[key]) for key in expected)
        if isinstance(expected, list | tuple):
            pairs = zip(actual, expected, strict=False)
            return len(actual) == len(expected) and all(self._same(*pair) for pair in pairs)
        return self.close(actual, expected)
