"""No row of a benchmark and no sample ends `codea1 eval`: each is scored, or named with the reason why not."""

import json

import pytest

from codea1_jax.cli import main

STEP = "def f(x):\n    if x > 0:\n        return 1\n    return 0"
NESTED = f"def f(x):\n    return {'not ' * 900}x"  # which Python takes, and makers of mutants do not


def row(name, solution=STEP, tests=("assert f(1) == 1",)):
    return {"id": name, "question": "Do it.", "solution": solution, "entry_point": "f", "tests": list(tests)}


TESTED = (
    row("plain"),
    row("excuses itself", "def f(x):  # pragma: no cover\n    return x"),
    row("has no branch", "def f(x): ...", ["assert f(1) == None"]),
    row("names an encoding", f"# coding: nothing-like-it\n{STEP}"),
    row("has no mutant", "def f(x):\n    return x"),
    row("is long", f"{STEP}\n# {'x' * 200_000}"),
)
UNTESTED = (row("empty tests", tests=[]), row("no tests") | {"tests": None})
BROKEN = {  # rows that are read, and what their own solution does
    "does not compile": (f"{STEP}\nreturn 5", "SyntaxError: 'return' outside function"),
    "ends": (f"{STEP}\nraise SystemExit", "SystemExit"),
    "dies": (f"{STEP}\nimport os\nos.abort()", "signal 6"),
    "cannot say why": (f"{STEP}\nraise ValueError('\\ud800')", "ValueError: "),
}
REFUSED = {
    "does not parse": (row("does not parse", "def f(x:"), "'(' was never closed"),
    "null": (row("null", f"{STEP}\0"), "null bytes"),
    "half a character": (
        row("half a character") | {"question": "\ud800"},
        "question holds half a character: '\\ud800'",
    ),
    "no question": (row("no question") | {"question": ["?"]}, "question is of type list"),
    "no such function": (row("no such function", "f = 1"), "defines no function f"),
    "number": (row("number") | {"solution": 5}, "solution is of type int"),
    "row 23": ("not JSON", "not JSON"),
    "row 24": ("[1]", "a list, not a JSON object"),
    "row 25": (f'{{"id": {"9" * 5_000}}}', "id is of type Decimal"),
    "row 26": (f'{{"id": {"[" * 100_000}', "maximum recursion depth"),
    "row 27": ('{"id": "\xff"}', "not UTF-8"),
}
DROPPED = {  # rows that lose their only test
    "half a test": (row("half a test", tests=["assert f('\ud800') == 1"]), "surrogates not allowed"),
    "deep test": (row("deep test", tests=[f"assert f(1) == {'[' * 400}{']' * 400}"]), "does not parse"),
    "long test": (row("long test", tests=[f"assert f({'1, ' * 9_000}) == 1"]), "longer than 10000 characters"),
}
SAMPLES = (STEP, "\ud800", "x\0", "", NESTED, f"def f(x):\n    return {'(' * 150}1{')' * 150}", "x" * 200_000)
TESTS = (
    "assert f(2) == 1",
    "\ud800",
    "assert f('\ud800') == 1",
    f"assert f(1) == {'[' * 900}{']' * 900}",
    f"assert f({'9' * 5_000}) == 1",
    "assert f({[]: 1}) == -'a'",
    "x" * 200_000,
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = [row(name, solution) for name, (solution, _) in BROKEN.items()]
    rows = [*TESTED, *UNTESTED, *broken, row("is nested", NESTED, ["assert f(0) == False"])]
    rows += [given for given, _ in DROPPED.values()]
    lines = [line if isinstance(line, str) else json.dumps(line) for line in (*rows, *(r for r, _ in REFUSED.values()))]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), encoding="latin-1")
    names = [line["id"] for line in rows] + ["\ud800"]
    for file, field, samples in (("programs.jsonl", "solution", SAMPLES), ("tests.jsonl", "tests", [TESTS])):
        written = [json.dumps({"task_id": name, field: sample}) for name in names for sample in samples]
        (tmp_path / file).write_text("\n".join(written))


def results(capsys, *arguments, code=0):
    assert main(["eval", *arguments, "--data", "data.jsonl", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def assert_named(found, reasons):
    assert found.keys() == reasons.keys()
    assert not [(name, reason) for name, reason in reasons.items() if reason not in found[name]]


def assert_left_out(found, **others):
    """What every evaluation leaves out, and what this one does."""
    assert_named(found["refused"], {name: reason for name, (_, reason) in REFUSED.items()})
    assert_named(found["dropped_tests"], {name: reason for name, (_, reason) in DROPPED.items()})
    assert_named(found["unsound"], {name: reason for name, (_, reason) in BROKEN.items()} | others)


def test_each_function_is_tested_or_left_out_by_name(data, capsys):
    found = results(capsys, "tests", "--samples", "reference")
    assert_left_out(found, **dict.fromkeys(("empty tests", "no tests", *DROPPED), "no call that can be scored"))
    figures = found["benchmarks"]["tests"]
    assert figures["sound"] == len(TESTED) + 1
    assert figures["problems"] == figures["sound"] + len(found["unsound"])
    assert figures["pass_at_5"]["value"] == 20  # each has one test, which is right


def test_each_problem_is_scored_or_left_out_by_name(data, capsys):
    none = {name: "it has neither a check nor tests" for name in ("empty tests", "no tests", *DROPPED)}
    own = results(capsys, "code", "--samples", "reference")
    assert_left_out(own, **none)
    figures = own["benchmarks"]["problems"]
    assert (figures["sound"], figures["avg_at_n_sound"]["value"]) == (len(TESTED) + 1, 100)
    assert figures["problems"] == figures["sound"] + len(own["unsound"])
    assert figures["avg_at_n"]["value"] == pytest.approx(100 * figures["sound"] / figures["problems"])
    both = results(capsys, "collaboration", "--samples", "programs.jsonl", "--test-samples", "tests.jsonl")
    assert_left_out(both, **none)
    assert both["benchmarks"]["problems"]["sound"] == len(TESTED) + 1
    assert both["unknown_samples"] == ["\ud800", "\ud800"]


def test_each_problem_gets_a_suite_or_is_named(data, capsys):
    found = results(capsys, "suites", "--samples", "tests.jsonl")
    assert_named(found["refused"], {name: reason for name, (_, reason) in REFUSED.items()})
    figures = found["benchmarks"]["static suites"]
    assert figures["problems"] == figures["tests"]
    assert found["without_samples"] == ["excuses itself", "has no branch", "has no mutant", *BROKEN]


@pytest.mark.parametrize(("kind", "figures"), [("tests", {"tests": {"problems": 5, "sound": 0}}), ("code", {})])
def test_where_nothing_is_sound_there_is_no_figure_and_no_table(kind, figures, data, capsys, tmp_path):
    rows = [json.dumps(row(name, solution)) for name, (solution, _) in BROKEN.items()]
    rows.append(json.dumps(row("fails its test", "def f(x):\n    return x", ["assert f(1) == 2"])))
    (tmp_path / "data.jsonl").write_text("\n".join(rows))
    found = results(capsys, kind, "--samples", "reference", code=2)
    assert found["benchmarks"] == figures
    assert found["unsound"].keys() == {*BROKEN, "fails its test"}
    assert main(["eval", kind, "--samples", "reference", "--data", "data.jsonl"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(f"cannot be judged: {name}: " in err for name in found["unsound"])
    assert err.splitlines()[-1] == "codea1: nothing was measured: no problem of --data is left"
