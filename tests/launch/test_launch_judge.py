"""A fleet of judges: its manifests, the commands that launch it, and one of processes here."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_cloud import ROOT, Script
from fake_worker import wait_for
from kubeflow_trainer_api.models.io_k8s_api_autoscaling_v2_horizontal_pod_autoscaler import (
    IoK8sApiAutoscalingV2HorizontalPodAutoscaler,
)
from kubeflow_trainer_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_trainer_api.models.io_k8s_api_core_v1_service import IoK8sApiCoreV1Service
from kubeflow_trainer_api.models.io_k8s_api_core_v1_service_account import IoK8sApiCoreV1ServiceAccount
from service import running
from test_launch_gke import unknown_to
from workers import free_port

from codea1_judge import cli
from sandbox import Job, SandboxPool
from sandbox.remote.client import RemoteJudge
from sandbox.remote.server import make_app

KUBECTL = shutil.which("kubectl")  # not that of the cloud which is not there
MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "launch/judge/judge.yaml").read_text())}
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.mark.parametrize(
    ("types", "document"),
    [
        (IoK8sApiCoreV1Service, MANIFESTS["Service"]),
        (IoK8sApiCoreV1ServiceAccount, MANIFESTS["ServiceAccount"]),
        (IoK8sApiCoreV1PodTemplateSpec, POD),
        (IoK8sApiAutoscalingV2HorizontalPodAutoscaler, MANIFESTS["HorizontalPodAutoscaler"]),
    ],
)
def test_manifests_are_what_their_published_types_say(types, document: dict[str, Any]):
    """Kubernetes' own types, of which those for training jobs hold these; they drop fields that they do not know."""
    assert unknown_to(json.loads(types.from_dict(document).to_json()), document) == []


def test_everything_concerns_the_pods_of_the_deployment():
    labels, specs = POD["metadata"]["labels"], {kind: each.get("spec", {}) for kind, each in MANIFESTS.items()}
    assert labels
    selectors = [specs[kind]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")]
    selectors += [specs["Service"]["selector"], specs["NetworkPolicy"]["podSelector"]["matchLabels"]]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    target = specs["HorizontalPodAutoscaler"]["scaleTargetRef"]
    assert target == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": MANIFESTS["Deployment"]["metadata"]["name"],
    }
    assert POD["spec"]["serviceAccountName"] == MANIFESTS["ServiceAccount"]["metadata"]["name"]
    assert "replicas" not in specs["Deployment"]  # or each `up` would undo what the autoscaler did


def test_a_pod_has_neither_rights_nor_ways_out():
    assert MANIFESTS["NetworkPolicy"]["spec"]["policyTypes"] == ["Egress"]
    assert "egress" not in MANIFESTS["NetworkPolicy"]["spec"]
    assert not POD["spec"]["automountServiceAccountToken"]
    assert POD["spec"]["securityContext"]["runAsNonRoot"]
    assert CONTAINER["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_manifests_and_service_agree():
    program, *arguments = [*CONTAINER["command"], *CONTAINER["args"]]
    assert f'{program} = "codea1_judge.cli:main"' in (ROOT / "judge/pyproject.toml").read_text()
    options = cli._parser().parse_args([word.replace("$(CORES)", "8") for word in arguments])
    assert (options.run, options.host, options.workers) == (cli.serve, "0.0.0.0", 8)
    assert {each["name"] for each in CONTAINER["env"]} == {"CORES", cli.VARIABLE}
    (port,), (served,) = CONTAINER["ports"], MANIFESTS["Service"]["spec"]["ports"]
    scraped = POD["metadata"]["annotations"]["prometheus.io/port"]
    assert port["containerPort"] == served["port"] == int(scraped) == options.port
    (metric,) = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["metrics"]
    with SandboxPool(workers=1) as pool, running(make_app(pool)) as address:
        for probe in ("readinessProbe", "livenessProbe"):
            assert CONTAINER[probe]["httpGet"]["port"] == port["name"]
            with urllib.request.urlopen(address + CONTAINER[probe]["httpGet"]["path"]) as answer:
                assert answer.status == 200
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            assert f"\n{metric['pods']['metric']['name']} 0\n" in answer.read().decode()


def test_the_image_holds_the_whole_judge():
    copied = set(re.findall(r"^COPY (\w+) \1$", (ROOT / "launch/Dockerfile").read_text(), re.MULTILINE))
    needed = {path.resolve().name for path in (ROOT / "judge").iterdir() if path.is_dir()}
    assert needed and needed | {"judge"} <= copied


UP = ("judge", "up", "--kind=gke", "--image=eu-docker.pkg.dev:443/me/judge:1", "--replicas=3", "--max-replicas=7")


def test_on_kubernetes_an_overlay_with_the_image_and_the_numbers_is_applied(cloud):
    assert cloud.launch(*UP) == 0
    assert [" ".join(call[:3]) for call in cloud.calls] == [
        "kubectl get secret/judge",
        "kubectl apply --kustomize=.cache/launch/judge",
        "kubectl rollout status",
    ]
    overlay = json.loads(Path(".cache/launch/judge/kustomization.yaml").read_text())
    assert overlay["images"] == [
        {"name": CONTAINER["image"], "newName": "eu-docker.pkg.dev:443/me/judge", "newTag": "1"}
    ]
    assert (Path(".cache/launch/judge") / overlay["resources"][0]).resolve() == ROOT / "launch/judge"
    assert cloud.launch("judge", "down", "--kind=gke") == 0
    assert cloud.calls[-1] == ["kubectl", "delete", "--kustomize=launch/judge", "--ignore-not-found"]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_kustomize_reads_the_overlay(cloud):
    assert cloud.launch(*UP) == 0
    command = [str(KUBECTL), "kustomize", ".cache/launch/judge"]
    built = subprocess.run(command, capture_output=True, text=True, check=True)
    kinds = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    assert kinds.keys() == MANIFESTS.keys()
    assert kinds["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"].endswith("/me/judge:1")
    spec = kinds["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 7)


def test_without_a_token_nothing_is_applied(cloud, capsys):
    cloud.script = Script(failures={"get secret": (1, "not found", 1)})
    assert cloud.launch(*UP) == 2
    assert "kubectl create secret generic judge" in capsys.readouterr().err
    assert cloud.verbs == []


def test_on_slurm_an_array_is_queued_once(cloud, capsys):
    up = ("judge", "up", "--kind=slurm", "--replicas=5", "--token-file=token", "--sbatch-flag=--partition=cpu")
    cloud.script = Script(looks=9)
    for _ in range(2):
        assert cloud.launch(*up, "--", "--preload", "numpy") == 0
    (call,) = [call for call in cloud.calls if call[0] == "sbatch"]
    assert call[1:] == [
        *("--parsable", "--job-name=judge", "--array=1-5", "--output=runs/judge-%a.log", "--partition=cpu"),
        *("launch/judge/array.sbatch", sys.executable, "--port=8787", "--token-file=token", "--preload", "numpy"),
    ]
    assert "already queued" in capsys.readouterr().err
    assert cloud.launch("judge", "status", "--kind=slurm", "--port=99") == 0
    assert cloud.calls[-1][-1] == "--format=http://%N:99"
    assert cloud.launch("judge", "down", "--kind=slurm") == 0
    assert cloud.calls[-1] == ["scancel", "--me", "--name=judge"]


def test_the_array_starts_a_judge_on_its_node(tmp_path: Path):
    for name, script in {"srun": 'exec "$@"', "python": 'printf "%s\\n" "$@"; ulimit -n; ulimit -Hn'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    words = ["bash", str(ROOT / "launch/judge/array.sbatch"), str(tmp_path / "python"), "--port=99"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    *given, soft, hard = done.stdout.split()
    assert given == ["-m", "codea1_judge", "serve", "--host", "0.0.0.0", "--port=99"]
    assert soft == hard


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--kind=gke",), "--image"),
        ((*UP[2:], "--max-replicas=2"), "fewer than the 3"),
        ((*UP[2:], "--", "--preload", "pandas"), "launch/judge/judge.yaml"),
        (("--kind=slurm",), "--token-file"),
        (("--kind=local", "--replicas=0"), "at least one judge"),
    ],
)
def test_what_cannot_work_is_refused(cloud, capsys, arguments, reason):
    assert cloud.launch("judge", "up", *arguments) == 2
    assert reason in capsys.readouterr().err
    assert cloud.calls == []


def test_local_judges_that_die_start_again_and_all_end_with_their_launcher(tmp_path: Path):
    port = free_port()
    command = [sys.executable, "-m", "launch", "judge", "up", "--kind=local", "--replicas=1", f"--port={port}"]
    with (tmp_path / "log").open("w") as log:
        launcher = subprocess.Popen(
            [*command, "--", "--workers=1"], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert launcher.stdout is not None
        printed = launcher.stdout.readline()
        addresses = re.findall(r"http://[^,\]]+", printed)
        assert addresses == [f"http://127.0.0.1:{port}"]
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        (first,) = children.read_text().split()
        with RemoteJudge(addresses) as judge:
            os.kill(int(first), signal.SIGKILL)
            assert judge.execute([Job("def f(): return 1", ("f()",))])[0].outcomes[0].value == "1"
        (second,) = children.read_text().split()
        assert second != first and f"{addresses[0]} ended with -9" in (tmp_path / "log").read_text()
    finally:
        launcher.terminate()
        assert launcher.wait(60) == 130
    wait_for(lambda: not Path(f"/proc/{second}").exists())
