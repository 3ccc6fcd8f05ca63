import argparse
import json
import tempfile
from pathlib import Path

import yaml

from codea1_jax.cli._runtime import DONE
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_json
from codea1_jax.config import METHODS, Config
from codea1_jax.run.publish.cards import LOCAL, is_local, model_card, public, rollouts_card
from codea1_jax.run.publish.hub import CARD, Upload, check_name, licence_of, send, summary_lines
from codea1_jax.run.publish.tables import write_rollouts
from codea1_jax.run.rundir import recorded_run
from codea1_jax.runtime.checkpoints import Checkpoints
from codea1_jax.training.convert import convert, open_policy, step_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="RUN", help="a run's directory, or RUN@STEP")
    parser.add_argument("name", metavar="USER/NAME", help="the models become USER/NAME-code and USER/NAME-test")
    parser.add_argument(
        "--dataset",
        action="store_true",
        help="also send the run's programs and suites as the dataset USER/NAME-rollouts, with questions and solutions",
    )
    parser.add_argument(
        "--license", metavar="ID", help="such as apache-2.0; default: what the base model's card states"
    )
    parser.add_argument("--private", action="store_true", help="make new repositories private")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), help="type of the weights; default: as in the run"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent: files, sizes and cards")
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    check_name(options.name)
    with tempfile.TemporaryDirectory() as folder:
        uploads = _write(options, Path(folder))
        described = [each.described() for each in uploads]
        if not options.dry_run:
            send(uploads, private=options.private)
    if options.json:
        print(json.dumps(described))
    elif options.dry_run:
        print("\n".join(summary_lines(described)))
    else:
        print("\n".join(f"{each.kind} {each.repo}" for each in uploads))
    return DONE


def _write(options: argparse.Namespace, folder: Path) -> list[Upload]:
    run = recorded_run(options.place)
    config = Config.model_validate(run.config)
    licences = {name: _licence(options, model.pretrained) for name, model in config.models.items()}
    with Checkpoints(run.checkpoints, read_only=True) as checkpoints:
        step = step_of(run, checkpoints)
        metrics = checkpoints.look(step)[1]["metrics"]
    published = public(run.config)
    config = Config.model_validate(published)
    shared = {key: value for key, value in published.items() if key not in LOCAL}
    policies = METHODS[config.method.name].policies
    repos = {policy: f"{options.name}-{policy}" for policy in policies}
    uploads = []
    for policy in policies:
        target = folder / policy
        convert(open_policy(options.place, policy), target, options.dtype)
        card = model_card(config, policy, repos, step, metrics, licences[policy])
        (target / CARD).write_text(card)
        (target / "training_config.yaml").write_text(yaml.safe_dump(shared, sort_keys=False))
        settings = target / "tokenizer_config.json"  # as the base's, which may name where it lay
        kept = {k: v for k, v in read_json(settings).items() if not (k.endswith(("_path", "_file")) and is_local(v))}
        settings.write_text(json.dumps(kept, indent=2) + "\n")
        uploads.append(Upload(repos[policy], "model", target))
    if options.dataset:
        repo, target = f"{options.name}-rollouts", folder / "rollouts"
        counts = write_rollouts(Path(run.place), target)
        (target / CARD).write_text(rollouts_card(repo, config.method.name, counts, options.license))
        uploads.append(Upload(repo, "dataset", target))
    return uploads


def _licence(options: argparse.Namespace, base: str | None) -> str:
    licence = options.license or licence_of(base)
    if licence is None:
        known = base or "a model trained from scratch"
        raise UserError(f"--license: name one, such as apache-2.0; {known} states none")
    return licence
