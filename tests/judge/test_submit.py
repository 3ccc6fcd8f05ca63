"""SandboxFusion's submit: a completion judged by the row that comes with it, and not by what it claims."""

import http.client
import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from service import answer_to, get, running

from codea1_judge import submit as submit_module
from codea1_judge.submit import submit
from data_pipeline.sandbox_fusion import FORMAT
from sandbox import Limits, SandboxPool
from sandbox.remote.server import ENDPOINTS, make_app

PAGE = Path(__file__).parents[2] / "docs" / "judge.md"


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    limits = Limits(call_seconds=2, load_seconds=2, program_seconds=4)
    with (
        SandboxPool(workers=2, limits=limits) as pool,
        running(make_app(pool, endpoints={**ENDPOINTS, "/submit": submit})) as address,
    ):
        yield address


def ask(service: str, completion: object, row: object, **config: Any) -> tuple[int, Any]:
    config = {"language": "python", "run_timeout": 2, "provided_data": row, "extra": {}} | config
    sent = {"dataset": "any", "id": 7, "completion": completion, "config": config}
    status, text, _ = answer_to(f"{service}/submit", json.dumps(sent).encode())
    return status, json.loads(text) if status == 200 else text


def case(given: str, expected: str) -> dict[str, Any]:
    return {"input": {"stdin": given}, "output": {"stdout": expected}}


DOUBLE = {
    "id": 1,
    "content": "Double it.",
    "labels": {},
    "test": [case("2\n", "4\n"), case("3", "6.0"), case("5", "10")],
}
CHECKED = {"id": 2, "content": "Write f.", "labels": "{}", "test": "assert f(1) == 2\nassert f(2) == 4"}


def fenced(code: str) -> str:
    return f"Here:\n```python\n{code}\n```\nDone."


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("print(int(input()) * 2)", [True, True, True]),
        ("print(float(input()) * 2)", [True, True, True]),
        ("print(min(6, int(input()) * 2))", [True, True, False]),
        ("print(4)", [True, False]),  # those behind the first failure are not run
        ("print(int(input()) * 2); exit(1)", [False]),
        ("while True: pass", [False]),
        ("print(", [False]),
    ],
)
def test_a_script_is_accepted_if_every_output_is_right(service: str, code: str, passed: list[bool]):
    status, answer = ask(service, fenced(code), DOUBLE | {"test": json.dumps(DOUBLE["test"])})
    assert status == 200 and [each["passed"] for each in answer["tests"]] == passed
    assert answer["accepted"] is all(passed)
    assert (answer["id"], answer["extracted_code"]) == (7, code)
    assert answer["tests"][0]["exec_info"]["run_result"]["status"] in ("Finished", "TimeLimitExceeded")


def test_all_cases_are_run_where_that_is_asked_for(service: str):
    answer = ask(service, fenced("print(4)"), DOUBLE, extra={"run_all_cases": True})[1]
    assert [each["passed"] for each in answer["tests"]] == [True, False, False]


def test_what_programs_print_is_not_collected_at_length(service: str):
    padded = "import sys\nprint(' ' * 1_000_000 + str(int(input()) * 2), file=sys.stdout)"
    answer = ask(service, fenced(padded), DOUBLE)[1]
    assert answer["accepted"] and len(json.dumps(answer)) < 1_000_000


@pytest.mark.parametrize("field", ["test", "labels"])
def test_a_text_in_a_row_has_no_more_parts_than_a_request(service: str, field: str):
    status, text = ask(service, "x", {"test": "[{}]", "labels": "{}"} | {field: "[{" + "},{" * (1 << 20) + "}]"})
    assert status == 400 and "at most 1048576 lists and objects" in text


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("YES ", "yes", True),
        ("a \nb", "a\nb\n", True),
        ("a\n\nb", "a\nb", False),
        ("0.333333", "0.3333333333", True),
        ("0.3333", "0.3333333333", False),
        ("1 2", "1  2", False),
        ("", "", True),
        ("nan", "nan", True),
        ("inf", "1", False),
        ("1000001", "1000000", False),
        ("1000001.0", "1000000", False),
        ("1000000.0", "1000000", True),
        ("123456789012345678901", "123456789012345678902", False),
        ("1e18", "1000000000000000000", True),
        ("0e99999999999999999999", "0", False),
        ("1e-99999999999999999999", "0", False),
    ],
)
def test_outputs_are_compared_line_by_line_as_by_sandbox_fusion(service: str, printed: str, expected: str, same: bool):
    row = DOUBLE | {"test": [case("", expected)]}
    assert ask(service, fenced(f"print({printed!r})"), row)[1]["accepted"] is same


def test_a_text_without_the_function_continues_the_question(service: str):
    row = CHECKED | {"content": "def f(x):"}
    for completion, accepted in (("    return 2 * x", True), ("    return 4", False), ("def f(x): return x * 2", True)):
        assert ask(service, completion, row)[1]["accepted"] is accepted, completion


# Each is accepted by a service that appends the asserts to the program and looks at its exit code.
FORGERIES = [
    "import os\nos._exit(0)",
    "import sys\nsys.exit(0)",
    "import atexit, os\natexit.register(os._exit, 0)\nf = None",
]
FORGERIES += [
    "class Any:\n    def __eq__(self, other): return True\ndef f(x): return Any()",
    "def f(x): raise SystemExit(0)",
]


OWN = {"id": "f", "question": "Write f.", "entry_point": "f", "tests": ["assert f(1) == 2", "assert f(2) == 4"]}
SOLUTION = "def f(x): return x + x"


def test_a_row_of_our_own_is_judged_as_it_stands(service: str):
    streams = {"id": "s", "question": "Double it.", "tests": [{"input": "2\n", "output": "4\n"}]}
    for code, row in (("def f(x): return x + x", OWN), ("print(2 * int(input()))", streams)):
        assert ask(service, fenced(code), row)[1]["accepted"] is True
        assert ask(service, fenced(code.replace("x + x", "x * x").replace("2 *", "3 *")), row)[1]["accepted"] is False
    whole = OWN | {"solution": SOLUTION, "tests": ["assert f(2) == 4", "assert f(1) == 1 + 1"]}
    answer = ask(service, fenced("def f(x): return x * x"), whole)[1]
    assert [each["passed"] for each in answer["tests"]] == [True, False] and answer["accepted"] is False
    assert "the call returned 1" in answer["tests"][1]["exec_info"]["run_result"]["stderr"]


@pytest.mark.parametrize("row", [CHECKED, CHECKED | {"test": {"code": f"#<INSERT>\n{CHECKED['test']}"}}])
def test_a_function_is_accepted_if_its_asserts_hold_and_by_no_forgery(service: str, row: dict):
    assert ask(service, fenced("def f(x): return x + x"), row)[1]["accepted"] is True
    refused = ask(service, fenced("def f(x): return 2"), row)[1]
    assert refused["accepted"] is False
    assert refused["tests"][0]["exec_info"]["run_result"]["return_code"] == 1
    for forgery in FORGERIES:
        assert ask(service, fenced(forgery), row)[1]["accepted"] is False, forgery


@pytest.mark.parametrize(
    ("completion", "row", "config", "reason"),
    [
        ("x", DOUBLE, {"language": "cpp"}, "language must be python"),
        ("x", None, {}, "the problem's row, which is not kept here"),
        (None, DOUBLE, {}, "completion must be a text"),
        ("x" * (1 << 20) + "x", DOUBLE, {}, "completion must be a text of at most 1048576 characters"),
        ("x", DOUBLE | {"test": []}, {}, "must be a list of cases, or code"),
        ("x", DOUBLE | {"test": [{"input": {}, "output": {}}]}, {}, "input.stdin and output.stdout"),
        ("x", DOUBLE | {"test": "assert True"}, {}, "tells which function is meant"),
        ("x", DOUBLE | {"test": "eJxrYJ..."}, {}, "does not parse"),
        ("x", {"content": "Q", "labels": {"entry_point": "f"}, "test": "assert f(1"}, {}, "does not parse"),
        ("x", CHECKED | {"test": {"code": "assert f() == 1", "asset": {"a": "eA=="}}}, {}, "assets"),
        ("x", OWN | {"solution": "def g(): pass"}, {}, "f"),
        ("x", OWN | {"solution": SOLUTION, "question": "Q" * (1 << 16)}, {}, "may have 65536 characters"),
        ("x", OWN | {"solution": SOLUTION, "tests": ["assert f(1)", "f(2)"]}, {}, "is left out"),
        ("x", OWN | {"solution": SOLUTION, "tests": ["assert f(1) == 2"] * (1 << 17)}, {}, "may have 1048576 char"),
        ("x", DOUBLE, {"custom_extract_logic": "submit_code_blocks([])"}, "custom_extract_logic"),
        ("x", DOUBLE, {"extra": ["run_all_cases"]}, "config.extra must be an object"),
        ("x", DOUBLE, {"run_timeout": 10_000}, "can be at most 600 here"),
    ],
)
def test_what_it_cannot_judge_is_refused_and_not_rejected(service: str, completion, row, config: dict, reason: str):
    status, text = ask(service, completion, row, **config)
    assert status == 400 and reason in text


def test_what_many_runs_print_is_judged_whole_and_shown_in_part(service: str, monkeypatch):
    monkeypatch.setattr(submit_module, "_MOST_SHOWN", 10)
    row = DOUBLE | {"test": [case("", "1234567")] * 3}
    answer = ask(service, fenced("print(1234567)"), row)[1]
    assert answer["accepted"]
    assert [each["exec_info"]["run_result"]["stdout"] for each in answer["tests"]] == ["1234567\n", "12", ""]


def test_requests_of_many_cases_keep_nobody_waiting(service: str):
    """More of them than there are turns: each gives up its turn after each case."""
    row = DOUBLE | {"test": [case("", "1")] * 40}
    with ThreadPoolExecutor(20) as threads:
        long = [threads.submit(ask, service, fenced("print(1)"), row) for _ in range(20)]
        while json.loads(get(f"{service}/health"))["waiting"] == 0:
            assert not any(each.done() for each in long)
        newcomer = http.client.HTTPConnection(service.removeprefix("http://"), source_address=("127.0.0.2", 0))
        newcomer.request("POST", "/run_code", json.dumps({"code": "print(2)", "language": "python"}))
        assert json.loads(newcomer.getresponse().read())["run_result"]["stdout"] == "2\n"
        newcomer.close()
        assert not any(each.done() for each in long)
        assert all(each.result()[1]["accepted"] for each in long)


def test_sandbox_fusions_own_samples_are_judged_alike_but_for_forgeries(service: str, real_rows):
    """A row's own solution is right there as well; a program that exits before its asserts is right there alone."""
    rows = (real_rows.kodcode.parent / "rows" / "mbpp.jsonl").read_text().splitlines()
    for row in map(json.loads, rows):
        solution = FORMAT.problem_of(row, FORMAT.id_of(row)).solution
        assert ask(service, fenced(solution), row)[1]["accepted"] is True, row["id"]
        for wrong in ("pass", "import os\nos._exit(0)"):
            assert ask(service, fenced(wrong), row)[1]["accepted"] is False, row["id"]


def test_the_requests_of_the_page_are_answered_as_one_expects(service: str):
    blocks = re.findall(r"^```bash\n(curl.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    answers = {}
    for command in blocks[0].split("\ncurl "):
        words = shlex.split(command.removeprefix("curl "))
        path = urlsplit(words[0]).path
        status, text, _ = answer_to(service + path, words[words.index("-d") + 1].encode())
        assert status == 200, text
        answers[path] = json.loads(text)
    assert answers["/submit"]["accepted"] is True
    assert answers["/execute"]["outcomes"][0]["value"] == "4"
    assert answers["/run_code"]["run_result"]["stdout"] == "2\n"
