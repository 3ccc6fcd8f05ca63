"""Manifests for Kubernetes agree with its types; that of judges with the service's command and the image."""

import argparse
import json
import re
from typing import Any

import pytest
import yaml
from fake_cloud import ROOT
from kubeflow_trainer_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_trainer_api.models.io_k8s_api_core_v1_service import IoK8sApiCoreV1Service
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
from service import answer_to, running

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_judge import cli
from sandbox import SandboxPool
from sandbox.remote.server import make_app

MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "launch/judge/judge.yaml").read_text())}
TRAINING = yaml.safe_load((ROOT / "launch/jobset.yaml").read_text())
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.mark.parametrize(
    ("types", "document"),
    [
        *[(IoK8sApiCoreV1Service, MANIFESTS["Service"]), (IoK8sApiCoreV1PodTemplateSpec, POD)],
        (JobsetV1alpha2JobSet, TRAINING),
    ],
)
def test_manifests_are_what_their_published_types_say(types, document: dict[str, Any]):
    """Kubernetes' own types, of which those for training jobs hold these; they drop fields that they do not know."""
    assert unknown_to(json.loads(types.from_dict(document).to_json()), document) == []


def unknown_to(known, stated, path: str = "") -> list[str]:
    """The places of what is stated that `known` does not have, or not like that; it may have more."""
    if isinstance(stated, dict) and isinstance(known, dict):
        return [place for key, value in stated.items() for place in unknown_to(known.get(key), value, f"{path}/{key}")]
    if isinstance(stated, list) and isinstance(known, list) and len(stated) == len(known):
        pairs = enumerate(zip(known, stated, strict=True))
        return [place for i, (have, want) in pairs for place in unknown_to(have, want, f"{path}/{i}")]
    return [] if known == stated else [path]


def test_training_has_a_pod_for_each_host_of_the_slice_that_its_preset_is_for():
    (slices,) = TRAINING["spec"]["replicatedJobs"]
    job = slices["template"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    hardware = find_hardware(load(Config, container["command"][2], container["command"][3:-1]).hardware or "")
    assert job["completions"] == job["parallelism"] == hardware.hosts
    assert container["resources"]["limits"]["google.com/tpu"] * hardware.hosts == hardware.devices


def test_a_pod_is_selected_and_has_no_rights():
    labels, spec = POD["metadata"]["labels"], MANIFESTS["Deployment"]["spec"]
    assert labels == MANIFESTS["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"]
    assert not POD["spec"]["automountServiceAccountToken"]
    assert POD["spec"]["securityContext"]["runAsNonRoot"]
    assert CONTAINER["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_manifests_and_service_agree():
    program, *arguments = [*CONTAINER["command"], *CONTAINER["args"]]
    assert f'{program} = "codea1_judge.cli:main"' in (ROOT / "judge/pyproject.toml").read_text()
    parser = argparse.ArgumentParser()
    cli.add_commands(parser.add_subparsers())
    options = parser.parse_args([word.replace("$(CORES)", "8") for word in arguments])
    assert (options.run, options.host, options.workers) == (cli.serve, "0.0.0.0", 8)
    assert {each["name"] for each in CONTAINER["env"]} == {"CORES", cli.VARIABLE}
    (port,), (served,) = CONTAINER["ports"], MANIFESTS["Service"]["spec"]["ports"]
    assert port["containerPort"] == served["port"] == options.port
    with SandboxPool(workers=1) as pool, running(make_app(pool)) as address:
        assert CONTAINER["livenessProbe"]["tcpSocket"]["port"] == port["name"]
        assert CONTAINER["readinessProbe"]["httpGet"]["port"] == port["name"]
        assert answer_to(address + CONTAINER["readinessProbe"]["httpGet"]["path"])[0] == 200


def test_the_image_copies_existing_files_and_holds_the_whole_judge():
    text = (ROOT / "launch/Dockerfile").read_text()
    sources = [word for line in text.splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert sources and all((ROOT / word).exists() for word in sources)
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE))
    needed = {path.resolve().name for path in (ROOT / "judge").iterdir() if path.is_symlink() and path.is_dir()}
    assert needed and needed | {"judge"} <= copied
