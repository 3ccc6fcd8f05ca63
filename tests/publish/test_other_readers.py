"""What is published, read by the released libraries that it is for, in an environment of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pyarrow.parquet as pq
import pytest
from example_run import write_example_run

from codea1_jax.cli import main
from codea1_jax.common.files import read_lines

ROOT = Path(__file__).parents[2]
PACKAGES = ("datasets==5.2.0", "evalplus==0.3.1", "lm_eval==0.4.13", "transformers==5.24.0", "torch")
TRACKERS = ("wandb==0.31.0", "mlflow-skinny==3.17.2", "sqlalchemy", "alembic")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
READ_MLFLOW = """
import json, sys
from mlflow import MlflowClient

client = MlflowClient(f"sqlite:///{sys.argv[1]}/mlflow.db")
(run,) = client.search_runs([client.get_experiment_by_name("code-a1").experiment_id])
history = [each for key in run.data.metrics for each in client.get_metric_history(run.info.run_id, key)]
points = [(each.key, each.step, each.timestamp, each.value) for each in history]
folder = client.download_artifacts(run.info.run_id, "")
print(json.dumps([run.info.run_name, run.info.status, run.data.params, points, folder]))
"""


def install(folder: Path, *packages: str) -> Path:
    """The Python of a new virtual environment with packages."""
    subprocess.run([sys.executable, "-m", "venv", folder], env=ENVIRONMENT, check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], env=ENVIRONMENT, check=True)
    return python


def output(*command: object) -> str:
    channels = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run([*map(str, command)], cwd=ROOT, env=ENVIRONMENT, check=False, **channels)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_released_libraries_read_models_datasets_and_results(arrived, evaluation, tmp_path, monkeypatch):
    python = install(tmp_path / "venv", *PACKAGES)
    for kind, name in (("model", "code"), ("model", "test"), ("dataset", "rollouts")):
        arrived.save(kind, f"me/mine-{name}", tmp_path / "arrived" / name)
    for form in ("evalplus", "lm-eval"):
        assert main(["export", str(evaluation), str(tmp_path / form), "--to", form]) == 0
    monkeypatch.setitem(ENVIRONMENT, "HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(ENVIRONMENT, "HF_HOME", str(tmp_path / "cache"))
    output(python, Path(__file__).parent / "read_back.py", tmp_path / "arrived", tmp_path)


@pytest.mark.long
def test_wandb_and_mlflow_read_a_runs_figures_and_rollouts(tmp_path):
    python = install(tmp_path / "venv", "--constraint", str(ROOT / "requirements" / "lock.txt"), *TRACKERS)
    packages = Path(get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    (packages / "ours.pth").write_text(f"{get_path('purelib')}\n{ROOT}\n")
    run = write_example_run(tmp_path / "mine", steps=20)
    for form in ("wandb", "mlflow"):
        output(python, "-m", "codea1_jax", "export", run, tmp_path / form, "--to", form)
    lines = read_lines(run / "metrics.jsonl")
    points = [(k, x["step"], x["time"], x[k]) for x in lines for k in x.keys() - {"kind", "step", "time"}]
    rewards = {
        (question["step"], question["question_id"], program["index"], program["reward"])
        for path in (run / "rollouts").iterdir()
        for question in read_lines(path)
        for program in question["programs"]
    }

    (offline,) = tmp_path.glob("wandb/wandb/offline-*")
    records = map(json.loads, output(python.with_name("wandb"), "leet", "inspect", "--json", offline).splitlines())
    items = {item["_step"]: item for item in (r["history"]["item"] for r in records if r["type"] == "history")}
    assert items.keys() == {line["step"] for line in lines}
    assert all((items[step][name], items[step]["_timestamp"]) == (value, time) for name, step, time, value in points)
    tables = [json.loads((offline / "files" / items[step]["programs.path"]).read_text()) for step in (10, 20)]
    rows = [dict(zip(table["columns"], row, strict=True)) for table in tables for row in table["data"]]
    assert {(row["step"], row["question_id"], row["index"], row["reward"]) for row in rows} == rewards

    name, status, config, history, folder = json.loads(output(python, "-c", READ_MLFLOW, tmp_path / "mlflow"))
    assert (name, status, config["train.steps"]) == ("mine", "FINISHED", "20")
    assert sorted(map(tuple, history)) == sorted((name, step, 1000 * time, value) for name, step, time, value in points)
    rows = pq.read_table(Path(folder) / "programs.parquet").to_pylist()
    assert {(row["step"], row["question_id"], row["index"], row["reward"]) for row in rows} == rewards
