"""Judges on Kubernetes: the manifest agrees with Kubernetes' types, the service's command and the image."""

import json
import re
from typing import Any

import pytest
import yaml
from fake_cloud import ROOT
from kubeflow_trainer_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_trainer_api.models.io_k8s_api_core_v1_service import IoK8sApiCoreV1Service
from service import answer_to, running
from test_launch_gke import unknown_to

from codea1_judge import cli
from sandbox import SandboxPool
from sandbox.remote.server import make_app

MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "launch/judge/judge.yaml").read_text())}
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.mark.parametrize(
    ("types", "document"), [(IoK8sApiCoreV1Service, MANIFESTS["Service"]), (IoK8sApiCoreV1PodTemplateSpec, POD)]
)
def test_manifests_are_what_their_published_types_say(types, document: dict[str, Any]):
    """Kubernetes' own types, of which those for training jobs hold these; they drop fields that they do not know."""
    assert unknown_to(json.loads(types.from_dict(document).to_json()), document) == []


def test_a_pod_is_selected_and_has_no_rights():
    labels, spec = POD["metadata"]["labels"], MANIFESTS["Deployment"]["spec"]
    assert labels == MANIFESTS["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"]
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
    assert port["containerPort"] == served["port"] == options.port
    with SandboxPool(workers=1) as pool, running(make_app(pool)) as address:
        for probe in ("readinessProbe", "livenessProbe"):
            assert CONTAINER[probe]["httpGet"]["port"] == port["name"]
            assert answer_to(address + CONTAINER[probe]["httpGet"]["path"])[0] == 200


def test_the_image_holds_the_whole_judge():
    copied = set(re.findall(r"^COPY (\w+) \1$", (ROOT / "launch/Dockerfile").read_text(), re.MULTILINE))
    needed = {path.resolve().name for path in (ROOT / "judge").iterdir() if path.is_dir()}
    assert needed and needed | {"judge"} <= copied
