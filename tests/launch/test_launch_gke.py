"""Runs on a GKE cluster, against a kubectl that records its calls."""

import pytest
import yaml
from fake_cloud import Cloud, Script
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

RUN = ("first", "1.5b/a1_v5e", "--bucket=gs://mine/runs", "--image=eu-docker.pkg.dev/me/codea1:1", "--poll=0")


def up(cloud: Cloud, *more: str) -> int:
    return cloud.launch("gke", "up", *RUN, *more)


def test_the_manifest_is_applied_as_printed_and_has_the_right_values(cloud, capsys):
    flags = ("--slices=2", "--spot", "--retries=5", "--service-account=trainer")
    assert cloud.launch("gke", "manifest", *RUN, *flags, "data.source=a 'b'.jsonl") == 0
    printed = capsys.readouterr().out
    assert cloud.calls == []
    assert cloud.launch("gke", "start", *RUN, *flags, "data.source=a 'b'.jsonl") == 0
    document = yaml.safe_load(cloud.manifest)
    assert document == yaml.safe_load(printed)
    assert document["metadata"]["name"] == "first"
    assert document["spec"]["failurePolicy"]["maxRestarts"] == 5
    (slices,) = document["spec"]["replicatedJobs"]
    job = slices["template"]["spec"]
    assert (slices["replicas"], job["completions"], job["parallelism"], job["backoffLimit"]) == (2, 4, 4, 0)
    pod = job["template"]["spec"]
    assert pod["serviceAccountName"] == "trainer"
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-spot": "true",
    }
    (container,) = pod["containers"]
    assert container["image"] == "eu-docker.pkg.dev/me/codea1:1"
    assert container["resources"]["limits"] == {"google.com/tpu": 4}
    assert container["command"] == [
        *("codea1", "train", "1.5b/a1_v5e", "data.source=a 'b'.jsonl", "run.directory=runs/first"),
        *("checkpoint.directory=gs://mine/runs/first/checkpoints", "mesh.replica=2"),
        *("data.source=gs://mine/runs/first/data.source/a 'b'.jsonl", "--resume"),
    ]
    compiled = {"name": "JAX_COMPILATION_CACHE_DIR", "value": "gs://mine/runs/first/compiled"}
    assert compiled in container["env"]
    (upload,) = pod["initContainers"]
    assert upload["command"][-2:] == ["/work/runs/first", "gs://mine/runs/first/run"]


def test_all_pods_prove_their_machines_once_in_place_of_training(cloud):
    assert cloud.launch("gke", "start", *RUN, "--slices=2", "--selftest") == 0
    specification = yaml.safe_load(cloud.manifest)["spec"]
    assert specification["failurePolicy"]["maxRestarts"] == 0
    (container,) = specification["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["codea1", "selftest", "1.5b/a1_v5e", "mesh.replica=2"]
    assert cloud.verbs == ["kubectl apply"]


@pytest.mark.parametrize("flags", [(), ("--slices=2", "--spot", "--retries=5", "--service-account=trainer")])
def test_the_manifest_is_a_jobset_by_its_published_types(cloud, capsys, flags):
    """Kubeflow publishes the types of JobSet and of Kubernetes; they drop fields that they do not know."""
    assert cloud.launch("gke", "manifest", *RUN, *flags) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert unknown_to(JobsetV1alpha2JobSet.from_dict(document).to_dict(), document) == []


def unknown_to(known, stated, path: str = "") -> list[str]:
    """The places of what is stated that `known` does not have, or not like that; it may have more."""
    if isinstance(stated, dict) and isinstance(known, dict):
        return [place for key, value in stated.items() for place in unknown_to(known.get(key), value, f"{path}/{key}")]
    if isinstance(stated, list) and isinstance(known, list) and len(stated) == len(known):
        pairs = enumerate(zip(known, stated, strict=True))
        return [place for i, (have, want) in pairs for place in unknown_to(have, want, f"{path}/{i}")]
    return [] if known == stated else [path]


@pytest.mark.parametrize(
    ("tpu", "hosts", "chips"),
    [("v5e:2x4", 1, 8), ("v6e:1x1", 1, 1), ("v6e:8x8", 16, 4), ("v5p:2x2x1", 1, 4), ("tpu7x:2x2x4", 4, 4)],
)
def test_a_slice_has_one_pod_per_host(cloud, capsys, tpu, hosts, chips):
    assert cloud.launch("gke", "manifest", *RUN, f"--tpu={tpu}") == 0
    job = yaml.safe_load(capsys.readouterr().out)["spec"]["replicatedJobs"][0]["template"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert (job["completions"], container["resources"]["limits"]["google.com/tpu"]) == (hosts, chips)


def test_up_takes_a_run_to_its_results_and_leaves_nothing_behind(cloud):
    cloud.script = Script(conditions=("StartupPolicyCompleted", "StartupPolicyCompleted", "Completed"))
    assert up(cloud) == 0
    assert cloud.verbs == ["kubectl apply", "kubectl logs", "kubectl logs", "kubectl delete", "copy"]
    assert cloud.jobset == []


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ({"conditions": ("Failed",)}, 1),
        ({"failures": {"kubectl get": (99, "the server is gone", 1)}}, 1),
        ({"failures": {"kubectl apply": (1, "admission webhook denied", 1)}}, 1),
        ({"interrupts": ("kubectl logs",), "conditions": ("Running",)}, 130),
    ],
)
def test_whatever_fails_the_jobset_is_deleted(cloud, script, code):
    cloud.script = Script(**script)
    assert up(cloud) == code
    assert cloud.jobset == []


def test_a_jobset_that_cannot_be_deleted_is_reported(cloud, capsys):
    cloud.script = Script(failures={"kubectl delete": (99, "forbidden", 1)})
    assert up(cloud) == 1
    assert "may still be BILLED; delete the JobSet: kubectl delete jobset/first" in capsys.readouterr().err


def test_up_joins_an_existing_jobset(cloud):
    cloud.jobset = ["Running", "Running", "Completed"]
    assert up(cloud, "--keep") == 0
    assert cloud.verbs == ["kubectl logs", "copy"]


@pytest.mark.parametrize(
    ("check", "failing"),
    [
        *[("cluster", "auth can-i"), ("bucket", "buckets describe")],
        *[("plan", "codea1 plan"), ("rehearsal", "codea1 rehearse")],
    ],
)
def test_what_cannot_work_is_refused(cloud, capsys, check, failing):
    cloud.script = Script(failures={failing: (9, "no", 1)})
    assert up(cloud) == 2
    assert f"FAIL {check}: " in capsys.readouterr().err
    assert cloud.verbs == []


def test_questions_are_copied_to_the_bucket_before_anything_starts(cloud):
    assert up(cloud) == 0
    copied = ["gcloud", "storage", "rsync", "--recursive", "data/kodcode", "gs://mine/runs/first/data.source/kodcode"]
    applied = next(call for call in cloud.calls if call[:2] == ["kubectl", "apply"])
    assert cloud.calls.index(copied) < cloud.calls.index(applied)


def test_the_image_must_be_given(cloud, capsys):
    assert cloud.launch("gke", "start", *RUN[:3]) == 2
    assert "--image: build and push one" in capsys.readouterr().err
