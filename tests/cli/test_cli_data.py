"""`codea1 data` from the command line: datasets made, faults found."""

import json
import re

import huggingface_hub
import pytest
from tiny_run import ROOT

from codea1_jax.cli import main
from codea1_jax.config import Config
from codea1_jax.config import load as load_config
from data_pipeline import load

GOOD = {"id": "a", "question": "Add one.", "solution": "def f(x):\n    return x + 1", "entry_point": "f"}
LINES = [
    json.dumps(GOOD | {"tests": ["assert f(1) == 2"]}),
    "",
    json.dumps(GOOD | {"id": "b", "tests": ["assert f(1) == 2", "assert f(1) == 3"]}),
    "{",
    json.dumps(GOOD),
    json.dumps({"id": "c", "question": "?"}),
    json.dumps(GOOD | {"id": "d", "tests": ["assert open('x')", "assert f(1) == 2"]}),
    json.dumps({"question": "?"}),
]
FAULTS = [
    (3, "b", "the solution fails tests (1 of 2): f(1) gave 2, not 3"),
    (4, "", "not JSON"),
    (5, "a", "the same id as line 1"),
    (6, "c", "no solution"),
    (7, "d", "the test \"assert open('x')\""),
    (8, "", "no id"),
]


def test_every_fault_is_named_by_its_line(tmp_path, capsys):
    path = tmp_path / "mine.jsonl"
    path.write_bytes("\n".join(LINES).encode() + b"\n\xff\n")
    assert main(["data", "validate", str(path)]) == 2
    *faults, last = capsys.readouterr().out.splitlines()
    for (line, name, reason), fault in zip(FAULTS, faults, strict=False):
        assert fault.startswith(f"{path}:{line}: {name + ': ' if name else ''}{reason}")
    assert faults[-1].startswith(f"{path}:9: not UTF-8")
    assert last == "2 good problems, 6 faults, 1 test dropped"
    assert main(["data", "validate", str(path), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert [fault["line"] for fault in report["faults"]] == [3, 4, 5, 6, 8, 9]
    assert [(test["line"], test["id"]) for test in report["dropped_tests"]] == [(7, "d")]


def test_checks_are_run_with_the_packages_of_this_environment(tmp_path, capsys):
    """As `eval code` runs them: what is installed here is not missing, and a check that fails is a fault."""
    check = (
        "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)\n"
    )
    prompts = {name: f"import {name}\ndef f(x):\n" for name in ("jinja2", "no_such_package")}
    bodies = {"right": "    return x + 1\n", "wrong": "    return x\n"}
    rows = [
        {"task_id": f"{n}/{b}", "complete_prompt": p, "canonical_solution": body, "test": check, "entry_point": "f"}
        for n, p in prompts.items()
        for b, body in bodies.items()
    ]
    path = tmp_path / "bigcodebench.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert main(["data", "validate", str(path), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == 1
    wrong, *missing = [(fault["id"], fault["reason"]) for fault in report["faults"]]
    assert wrong[0] == "jinja2/wrong" and wrong[1].startswith("its own solution fails its own check (failed: ")
    assert missing == [
        (f"no_such_package/{b}", "needs no_such_package, which the judge's Python lacks") for b in bodies
    ]


def test_a_dropped_test_is_no_fault(tmp_path, capsys):
    path = tmp_path / "mine.jsonl"
    path.write_text(LINES[6] + "\n\n")
    assert main(["data", "validate", str(path)]) == 0
    shown, last = capsys.readouterr().out.splitlines()
    assert shown.startswith(
        f"{path}:1: d: the test \"assert open('x')\" is left out: it is outside the language of tests: "
    )
    assert last == "1 good problem, 0 faults, 1 test dropped"


def test_a_file_without_faults_is_good_and_one_that_is_not_there_is_bad_input(tmp_path, capsys):
    path = tmp_path / "mine.jsonl"
    path.write_text(LINES[0] + "\n")
    assert main(["data", "validate", str(path)]) == 0
    assert capsys.readouterr().out == "1 good problem, 0 faults\n"
    assert main(["data", "validate", str(tmp_path / "none.jsonl")]) == 2
    assert "no such file" in capsys.readouterr().err


def kodcode_row(name, difficulty):
    return {
        "question_id": name,
        "question": f"Add {name}.",
        "solution": "def add(x):\n    return x + 1",
        "test": "def test_add():\n    assert add(1) == 2",
        "test_info": None,
        "gpt_difficulty": difficulty,
    }


def test_kodcodes_hard_questions_are_prepared_unless_others_are_asked_for(tmp_path, capsys):
    source = tmp_path / "rows.json"
    source.write_text(json.dumps([kodcode_row("one", "hard"), kodcode_row("two", "easy"), kodcode_row("six", "hard")]))
    assert main(["data", "prepare", "kodcode", "--source", str(source), "--out", str(tmp_path / "out"), "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert sum(manifest["kept"].values()) == 2
    assert manifest["dropped"] == {"difficulty easy": 1}
    assert {p.id for p in load(manifest["path"]).problems} == {"one", "six"}
    easy = ["--difficulty", "easy", "--out", str(tmp_path / "easy")]
    assert main(["data", "prepare", "kodcode", "--source", str(source), *easy]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["dropped"] == {"difficulty hard": 2}
    assert "manifest.json there" in shown.err


EVALUATED = kodcode_row("seven", "hard") | {"question": "Is it prime?"}


@pytest.fixture
def hub(tmp_path, monkeypatch) -> dict[str, list[str]]:
    """A Hub that has KodCode and the presets' benchmarks, one question in both; what is asked of it, by dataset."""
    files = {
        "KodCode/KodCode-V1": [kodcode_row("one", "hard"), kodcode_row("two", "easy"), EVALUATED],
        "evalplus/humanevalplus": [EVALUATED | {"question_id": "six", "question": "Something else."}],
        "evalplus/mbppplus": [EVALUATED],
    }
    asked: dict[str, list[str]] = {}

    def download(name: str, repo_type: str, allow_patterns: list[str]) -> str:
        asked[name] = allow_patterns
        folder = tmp_path / "hub" / name
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "train-00000-of-00001.json").write_text(json.dumps(files[name]))
        (folder / "data" / "use_with_caution-00000-of-00001.json").write_text(json.dumps([kodcode_row("no", "hard")]))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


def test_one_command_creates_what_every_preset_of_real_size_trains_on(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = load_config(Config, "1.5b/a1").data.source
    with pytest.raises(ValueError, match=r"create it: codea1 data prepare kodcode$"):
        load(source)
    assert main(["data", "prepare", "kodcode"]) == 0
    assert hub["KodCode/KodCode-V1"] == ["data/train-*"]
    assert hub.keys() == {"KodCode/KodCode-V1", *load_config(Config, "1.5b/a1").eval.datasets}
    assert json.loads(capsys.readouterr().out)["dropped"] == {"difficulty easy": 1, "overlaps with kodcode": 1}
    assert [problem.id for problem in load(source).problems] == ["one"]


def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path, capsys):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "mine.jsonl").write_text(LINES[0])
    arguments = ("data", "prepare", "problems", "--source", str(tmp_path / "problems" / "mine.jsonl"))
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    assert "holds something other than a prepared dataset" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "problems").iterdir()] == ["mine.jsonl"]
    for _ in range(2):  # but a prepared one is
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("problems",), "--source: problems is made from files"),
        (("problems", "--source", "./none.json"), "--source: none.json: no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "prepare", *arguments, "--out", "out"]) == 2
    assert reason in capsys.readouterr().err


def test_problems_without_a_solution_are_to_evaluate_on_and_no_fault(tmp_path, capsys):
    none = {"input": [], "output": []}
    row = {"name": "a", "description": "Print x + 1.", "solutions": {"language": [], "solution": []}}
    row |= {"public_tests": {"input": ["1\n"], "output": ["2\n"]}, "private_tests": none, "generated_tests": none}
    (tmp_path / "contest.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["data", "validate", str(tmp_path / "contest.jsonl")]) == 0
    assert capsys.readouterr().out == "1 to evaluate on, none to train on, 0 faults\n"


def test_every_row_of_the_page_is_a_good_problem(tmp_path, capsys):
    blocks = re.findall(r"^```json\n(.*?)^```$", (ROOT / "docs" / "data.md").read_text(), re.MULTILINE | re.DOTALL)
    rows = [row for row in "".join(blocks).splitlines() if "solution" in row]
    assert sum("class Counter" in row or "ListNode" in row or '"input"' in row for row in rows) >= 3
    (tmp_path / "page.jsonl").write_text("\n".join(rows))
    assert main(["data", "validate", str(tmp_path / "page.jsonl")]) == 0, capsys.readouterr().out
