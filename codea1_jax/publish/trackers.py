"""What a run has recorded as a run of Weights & Biases or MLflow, neither of which is needed while it trains."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from codea1_jax.common.files import read_lines
from codea1_jax.config.presets import by_key
from codea1_jax.publish.tables import rollout_tables, write_rollouts
from codea1_jax.run.rundir import RecordedRun
from codea1_jax.run.telemetry import METRICS_FILE, figures_of, rollout_steps, rollouts_path

PROJECT = "code-a1"


def write_wandb(run: RecordedRun, folder: Path) -> None:
    """Writes an offline run, which `wandb sync` uploads: figures, and each step's programs and suites as tables."""
    import wandb  # noqa: PLC0415  # an optional extra  # pyright: ignore[reportMissingImports]

    place = Path(run.place)
    lines, recorded = read_lines(place / METRICS_FILE), rollout_steps(place)
    settings = wandb.Settings(mode="offline", silent=True, console="off", disable_git=True, x_disable_stats=True)
    about = {"project": PROJECT, "name": place.absolute().name, "config": run.config, "dir": str(folder)}
    with wandb.init(**about, settings=settings) as record:
        for step in sorted({line["step"] for line in lines}.union(recorded)):
            if step in recorded:
                for name, table in rollout_tables(read_lines(rollouts_path(place, step))).items():
                    rows = [[*row.values()] for row in table.to_pylist()]
                    record.log({name: wandb.Table(columns=table.column_names, data=rows)}, step=step)
            for line in (line for line in lines if line["step"] == step):
                record.log(figures_of(line) | {"_timestamp": line["time"]}, step=step)


def write_mlflow(run: RecordedRun, destination: str) -> None:
    """Sends figures, configuration and rollouts (as parquet files) to a tracking server, or to a folder's database.

    destination: http://host:port, or the folder. Raises OSError if the server does not take them.
    """
    from mlflow import MlflowClient  # noqa: PLC0415  # an optional extra  # pyright: ignore[reportMissingImports]
    from mlflow.entities import Metric, Param  # noqa: PLC0415  # pyright: ignore[reportMissingImports]
    from mlflow.exceptions import MlflowException  # noqa: PLC0415  # pyright: ignore[reportMissingImports]

    place, folder = Path(run.place), None if "://" in destination else Path(destination).absolute()
    lines = read_lines(place / METRICS_FILE)
    times = [round(1000 * line["time"]) for line in lines]
    try:
        client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db" if folder else destination)
        known = client.get_experiment_by_name(PROJECT)
        artifacts = (folder / "artifacts").as_uri() if folder else None
        experiment = known.experiment_id if known else client.create_experiment(PROJECT, artifacts)
        name = place.absolute().name
        record = client.create_run(experiment, start_time=min(times, default=None), run_name=name).info.run_id
        client.log_batch(record, params=[Param(key, str(value)) for key, value in by_key(run.config).items()])
        for line, time in zip(lines, times, strict=True):
            figures = figures_of(line)
            client.log_batch(record, [Metric(key, value, time, line["step"]) for key, value in figures.items()])
        if rollout_steps(place):
            with TemporaryDirectory() as written:
                write_rollouts(place, Path(written))
                client.log_artifacts(record, written)
        client.set_terminated(record, end_time=max(times, default=None))
    except MlflowException as error:
        raise OSError(f"{destination}: {' '.join(str(error).split())}") from error
