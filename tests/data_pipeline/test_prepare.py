"""Prepared datasets account for every row, have the same bytes for the same input, and are read without TensorFlow."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import pytest

import data_pipeline
from data_pipeline import Problem, micro, tfds_files
from data_pipeline.hub import local_path
from data_pipeline.prepare import prepare
from data_pipeline.sources import Recipe
from sandbox import Limits, SandboxPool

ROOT = Path(__file__).parents[2]


def kodcode_row(number: int, **changes) -> dict:
    row = {
        "question_id": f"K{number}",
        "question": f"Add the number {number}.",
        "solution": f"def add(x):\n    return x + {number}",
        "test": f"def test_add():\n    assert add(1) == {number + 1}",
        "test_info": None,
        "gpt_difficulty": "hard",
    }
    return row | changes


ROWS = [
    *(kodcode_row(number) for number in range(30)),
    kodcode_row(30, question="Add the number 3."),
    kodcode_row(31, gpt_difficulty="easy"),
    kodcode_row(32, test="def test_add():\n    assert add(1) == 0"),
    kodcode_row(33, test="def test_add():\n    assert add(1) == 33\n    assert add(2) == 35"),
    kodcode_row(34, solution="def add(:"),
    kodcode_row(35, question="Is it prime?"),
    kodcode_row(36, question="Add 36.\n>>> add(1)\n37"),
]
DROPPED = {
    "difficulty easy": 1,
    "the solution does not parse": 1,
    "same question as another": 1,
    "overlaps with problems": 1,
    "the solution fails tests (N of N)": 2,
}
EVALUATION_ROW = {"id": "e", "question": "is it prime", "solution": "def f(x):\n    return x", "entry_point": "f"}


@pytest.fixture(scope="module")
def judge():
    """Lends one pool, whatever packages are asked for."""
    with SandboxPool(workers=1, backend="process") as pool:
        yield lambda packages: nullcontext(pool)


@pytest.fixture
def recipe(tmp_path) -> Recipe:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    (tmp_path / "evaluation.jsonl").write_text(json.dumps(EVALUATION_ROW))
    return Recipe("kodcode", str(tmp_path / "rows.json"), ("hard",), (str(tmp_path / "evaluation.jsonl"),), published=5)


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_the_manifest_accounts_for_every_row(recipe, tmp_path, judge):
    steps = []
    path, manifest = prepare(recipe, tmp_path / "out", judge, lambda *step: steps.append(step))
    assert steps == [(33, 33)]
    assert manifest.dropped == DROPPED
    assert sum(manifest.kept.values()) + sum(DROPPED.values()) == len(ROWS)
    assert manifest.described == 1
    assert manifest.kept_after == {
        "rows": 37,
        "of a wanted difficulty": 36,
        "readable": 35,
        "each question once": 34,
        "no overlap with evaluation sets": 33,
        "the solution passes its tests": 31,
    }
    assert manifest.published == 5
    assert manifest.packages == ["numpy"]
    assert {refusal.id for refusal in manifest.refused} == {"K30", "K31", "K32", "K33", "K34", "K35"}
    written = json.loads((path / "manifest.json").read_text())
    assert written["kept"] == manifest.kept and written["dropped"] == DROPPED
    assert set(written["files_sha256"]) == set(files_of(path)) - {"manifest.json"}


def test_a_prepared_dataset_is_a_source(recipe, tmp_path, judge):
    path, manifest = prepare(recipe, tmp_path / "out", judge)
    assert path == tmp_path / "out" / "kodcode"
    assert manifest.kept == {"train": 31}
    problems = data_pipeline.load(str(path)).problems
    assert {problem.id for problem in problems} == {f"K{number}" for number in (*range(30), 36)}
    example = next(p for p in problems if p.id == "K36")
    assert example.question == "Add 36.\n>>> add(1)\n37\n\ndef add(x):"
    assert example.description == "Add 36.\n\ndef add(x):"


def test_the_same_input_gives_the_same_bytes_without_tensorflow(recipe, tmp_path, judge):
    """In this process, and in one with another hash seed in which any import of TensorFlow fails."""
    mine, _ = prepare(recipe, tmp_path / "mine", judge)
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    code = (
        "from contextlib import nullcontext; from sandbox import SandboxPool; from data_pipeline import load\n"
        "from data_pipeline.loader import batches; from data_pipeline.prepare import Recipe, prepare\n"
        "with SandboxPool(workers=1, backend='process') as pool:\n"
        f"    path, _ = prepare({recipe!r}, {str(tmp_path / 'other')!r}, lambda packages: nullcontext(pool))\n"
        "assert len(next(batches(load(str(path)).problems, 4, seed=0))) == 4"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert files_of(tmp_path / "other" / mine.relative_to(tmp_path / "mine")) == files_of(mine)


def test_packages_that_solutions_import_are_preloaded_and_missing_ones_are_named(tmp_path):
    solutions = (
        "import numpy as np\ndef add(x):\n    return int(np.int64(x) + 1)",
        "import gone_for_good\ndef add(x): ...",
    )
    rows = [kodcode_row(i, question=f"{i}", solution=s) for i, s in enumerate(solutions)]
    rows[0] |= {"test": "def test_add():\n    assert add(1) == 2"}
    rows.append(kodcode_row(9, solution="def add(x):\n    from click import style\n    return x + 9"))
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    opened = []

    def open_judge(packages):
        opened.append(packages)
        return SandboxPool(workers=1, preload=packages, limits=Limits(memory_mb=1024))

    _, manifest = prepare(Recipe("kodcode", str(tmp_path / "rows.json"), ("hard",)), tmp_path / "out", open_judge)
    assert opened == [("numpy", "click")]
    assert manifest.kept == {"train": 2}
    assert ["gone_for_good" in refusal.reason for refusal in manifest.refused] == [True]


def test_every_field_of_a_problem_survives_writing_and_reading(tmp_path):
    problems = (
        *micro.problems("train", 20, seed=0),
        Problem("é/1", "q\n\"'", "def f():\n    pass", "f", (), check="☃", source="problems"),
    )
    read = tfds_files.read(tfds_files.write(tmp_path, "problems", problems))
    assert (set(read), len(read)) == (set(problems), len(problems))


def test_a_dataset_that_an_earlier_version_wrote_is_read_with_what_it_lacks_by_default(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class FirstVersion:
        id: str
        question: str
        solution: str
        entry_point: str
        golden_tests: tuple[str, ...]
        check: str = ""
        probe_calls: tuple[str, ...] = ()
        mutants: tuple[str, ...] = ()
        source: str = ""

    row = ("one", "Add one.", "def f(x):\n    return x + 1", "f", ("assert f(1) == 2",))
    with monkeypatch.context() as earlier:
        earlier.setattr(tfds_files, "Problem", FirstVersion)
        path = tfds_files.write(tmp_path, "problems", [FirstVersion(*row, source="mine")])  # type: ignore[list-item]
    assert tfds_files.read(path) == (Problem(*row, source="mine"),)


def test_features_of_a_dataset_import_nothing(tmp_path, monkeypatch):
    path = tfds_files.write(tmp_path, "problems", micro.problems("train", 2, seed=0))
    (tmp_path / "chosen.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    file = path / "features.json"
    written = file.read_text()
    for document in (
        written.replace("tensorflow_datasets.core.features.text_feature.Text", "chosen.Text", 1),
        '{"type": "chosen.Text", "content": {}}',
        '{"featuresDict": {"features": []}}',
        "[" * 100_000,
    ):
        file.write_text(document)
        with pytest.raises(ValueError, match=r"not of problems|features\.json is not JSON"):
            tfds_files.read(path)
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_prepared_is_a_clear_error(tmp_path, judge):
    with pytest.raises(ValueError, match=r"nothing\.json: no such file$"):
        prepare(Recipe("kodcode", str(tmp_path / "nothing.json")), tmp_path, judge)
    (tmp_path / "mine.jsonl").write_text(json.dumps(EVALUATION_ROW))
    with pytest.raises(ValueError, match="problems has no difficulties to choose from"):
        prepare(Recipe("problems", str(tmp_path / "mine.jsonl"), ("hard",)), tmp_path, judge)
    with pytest.raises(ValueError, match=r"no problems are left of 1 rows \(1 belongs to problems\)$"):
        prepare(Recipe("kodcode", str(tmp_path / "mine.jsonl")), tmp_path, judge)


def test_a_dataset_of_the_hub_is_downloaded_and_its_files_read_together(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for part in (0, 1):
        lines = [json.dumps(kodcode_row(number)) for number in range(part * 3, part * 3 + 3)]
        (tmp_path / "data" / f"part-{part}.jsonl").write_text("\n".join(lines))
    asked = []

    def download(repo: str, repo_type: str, allow_patterns: list[str]) -> str:
        asked.append((repo, repo_type, "*.parquet" in allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    path = local_path("KodCode/KodCode-V1")
    assert asked == [("KodCode/KodCode-V1", "dataset", True)]
    ids = [problem.id for problem in data_pipeline.load(str(path)).problems]
    assert ids == [f"K{number}" for number in range(6)]
    chosen = local_path("KodCode/KodCode-V1/data/part-1*")
    assert [problem.id for problem in data_pipeline.load(str(chosen)).problems] == ["K3", "K4", "K5"]


def test_local_paths_are_not_looked_up_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *args, **options: pytest.fail("was asked"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text("{}")
    for here in ("data", "data/a.jsonl", "data/a*", "data/mistyped.json", "./b/c", "/b/c"):
        assert local_path(here) == Path(here)


def test_a_hub_that_cannot_be_reached_is_one_clear_line(monkeypatch):
    def download(repo: str, **options) -> str:
        raise huggingface_hub.errors.LocalEntryNotFoundError("a\nlong story") from OSError("no\nnetwork")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ValueError, match=r"^a/b: no such file, nor available from the Hub: it cannot be .*no network"):
        local_path("a/b")


def test_every_kodcode_row_is_prepared_or_counted_with_a_reason(rows, tmp_path, judge):
    recipe = Recipe("kodcode", str(rows.kodcode), against=(str(rows.evalplus),))
    path, manifest = prepare(recipe, tmp_path, judge)
    given = len(json.loads(rows.kodcode.read_text()))
    assert sum(manifest.kept.values()) + sum(manifest.dropped.values()) == given
    problems = data_pipeline.load(str(path)).problems
    assert len(problems) == sum(manifest.kept.values()) >= 0.78 * given
    assert all(problem.golden_tests for problem in problems)
