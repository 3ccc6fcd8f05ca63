"""Runs on Cloud TPU VMs, against a gcloud that records its calls and fails on request; names of slices."""

import shlex

import pytest
from fake_cloud import Cloud, Script

from codea1_jax.common.chips import CHIPS
from launch import tpu
from launch.shell import Answer, LaunchError
from launch.tpu import KINDS, find_slice, read_state, read_training

REQUIRED = ("--project=me", "--zone=us-west4-a", "--bucket=gs://mine/runs", "--poll=0")
RUN = ("first", "1.5b/a1_v5e", *REQUIRED)
CREATE, DELETE = "queued-resources create", "queued-resources delete"
DONE = ["stop", "copy", "delete"]


def up(cloud: Cloud, *more: str) -> int:
    return cloud.launch("tpu", "up", *RUN, *more)


def is_gone(cloud: Cloud) -> bool:
    return cloud.queue == []


# --- success -------------------------------------------------------------------------------------


def test_up_does_what_the_dry_run_prints_and_leaves_nothing_behind(cloud, capsys):
    assert up(cloud, "--dry-run") == 0
    printed = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert cloud.calls == []
    assert up(cloud) == 0
    ours = {"git", "codea1", "gcloud"}
    assert (cloud.bucket("gs://mine/runs/first/data.source/kodcode") / "dataset_info.json").exists()
    assert _once(cloud.calls) == _once([words for words in printed if words[0] in ours])
    assert cloud.verbs == ["create", "scp", "install", "jail", "start", "logs", "status", *DONE]
    assert is_gone(cloud)


def test_the_workers_are_proved_once_in_place_of_training(cloud):
    cloud.script = Script(endings=(("exit 1", "exit 0"),))
    assert up(cloud, "--selftest", "train.steps=3") == 1
    [started] = [word for call in cloud.calls for word in call if "worker.sh start" in word]
    assert started.endswith("gs://mine/runs/first runs/first selftest 1.5b/a1_v5e train.steps=3")
    assert not any("data.source" in " ".join(call) for call in cloud.calls)
    assert is_gone(cloud)


def _once(calls: list[list[str]]) -> list[list[str]]:
    """Without the state checks, whose number varies."""
    return [call for call in calls if "queued-resources describe" not in " ".join(call)]


def test_it_waits_in_the_queue_and_for_slow_answers(cloud):
    cloud.script = Script(
        states=["WAITING_FOR_RESOURCES"] * 3 + ["PROVISIONING", "ACTIVE"],
        endings=[["running", "running"], ["exit 0", "running"], ["exit 0", "exit 0"]],
        slow={"--command=bash worker.sh install": 0.3},
    )
    assert up(cloud) == 0
    assert cloud.verbs.count("create") == cloud.verbs.count("start") == cloud.verbs.count("logs") == 1
    assert cloud.verbs[-6:] == ["status"] * 3 + DONE


def test_a_missing_answer_is_requested_again(cloud, monkeypatch):
    monkeypatch.setattr(tpu, "ASK_SECONDS", 0.2)
    cloud.script = Script(slow={"queued-resources describe": 0.6})
    assert up(cloud) == 1
    assert len(cloud.calls) == 5
    assert "create" not in cloud.verbs


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ["--node-id=first"]),
        (("--spot", "--create-flag=--internal-ips"), ["--node-id=first", "--spot", "--internal-ips"]),
        (("--slices=2",), ["--node-count=2", "--node-prefix=first"]),
    ],
)
def test_slices_are_requested_as_configured(cloud, flags, expected):
    assert cloud.launch("tpu", "create", *RUN, *flags) == 0
    (call,) = [call for call in cloud.calls if "create" in call]
    named = ["--project=me", "--zone=us-west4-a", "--accelerator-type=v5litepod-16"]
    assert call[5:] == ["first", *named, "--runtime-version=v2-alpha-tpuv5-lite", *expected, "--quiet"]


def test_training_gets_its_folders_and_always_resumes(cloud):
    assert cloud.launch("tpu", "start", *RUN, "--slices=2", "data.source=a b.jsonl", "--dry-run") == 0
    cloud.queue = ["ACTIVE"]
    assert cloud.launch("tpu", "start", *RUN, "--slices=2", "data.source=a b.jsonl") == 0
    (command,) = [word for call in cloud.calls for word in call if word.startswith("--command=")]
    assert shlex.split(command.removeprefix("--command=")) == [
        *("bash", "worker.sh", "start", "gs://mine/runs/first", "runs/first"),
        *("train", "1.5b/a1_v5e", "data.source=a b.jsonl", "run.directory=runs/first"),
        *("checkpoint.directory=gs://mine/runs/first/checkpoints", "mesh.replica=2"),
        *("data.source=gs://mine/runs/first/data.source/a b.jsonl", "--resume"),
    ]
    copy = ["gcloud", "storage", "cp", "a b.jsonl", "gs://mine/runs/first/data.source/a b.jsonl"]
    assert cloud.calls[0] == copy


def test_every_file_of_questions_is_copied_where_all_workers_can_read_it(cloud, tmp_path):
    """Except for one that is already in a bucket."""
    suites = tmp_path / "runs" / "1.5b-suites-a1" / "problems.jsonl"
    suites.parent.mkdir(parents=True)
    suites.write_text("{}")
    static = ("first", "1.5b/static_a1_v5e", *REQUIRED)
    assert cloud.launch("tpu", "up", *static, "data.source=gs://ours/kodcode") == 0
    copy = "gs://mine/runs/first/data.golden_tests/problems.jsonl"
    assert ["gcloud", "storage", "cp", "runs/1.5b-suites-a1/problems.jsonl", copy] in cloud.calls
    (started,) = [word for call in cloud.calls for word in call if word.startswith("--command=bash worker.sh start")]
    assert f"data.golden_tests={copy}" in started and "data.source=gs://mine" not in started


# --- refused before anything is billed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "failing", "reason"),
    [
        ("tree", "git diff", "commit them"),
        ("plan", "codea1 plan", "does not fit v5e:4x4"),
        ("rehearsal", "codea1 rehearse", "does not work in small"),
    ],
)
def test_what_cannot_work_is_refused_before_billing(cloud, capsys, check, failing, reason):
    cloud.script = Script(failures={failing: (9, "no room", 1)})
    assert up(cloud) == 2
    said = capsys.readouterr().err
    assert f"refused by {check}: " in said and reason in said
    assert cloud.verbs == []
    assert up(cloud, f"--skip={check}") == 0


def test_questions_that_cannot_be_copied_leave_nothing_to_bill(cloud):
    cloud.script = Script(failures={"storage rsync --recursive data/kodcode": (1, "connection reset", 1)})
    assert up(cloud) == 1
    assert "create" not in cloud.verbs and is_gone(cloud)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("up", "first", *REQUIRED), "up: give a preset"),
        (("up", "First", "1.5b/a1_v5e", *REQUIRED), "First: a name has"),
        (("up", "first", "1.5b/a1_v5", *REQUIRED), "did you mean"),
        (("up", "first", "micro/a1", *REQUIRED), "--tpu: give a slice"),
        (("up", *RUN, "--tpu=v5e:4"), "v5e:4 is not known hardware"),
        (("up", *RUN, "--tpu=tpu7x:2x2x1"), "--tpu tpu7x:2x2x1: the Cloud TPU API has v4, v5e"),
        (("up", *RUN, "run.directory=here"), "run.directory=here: leave it out"),
        (("up", *RUN, "--slices=2", "mesh.replica=4"), "mesh.replica=4: leave it out"),
        (("up", *RUN, "--skip=nothing"), "--skip nothing: the checks are tree, rehearsal"),
        (("up", "first", "1.5b/a1_v5e", *REQUIRED[:2]), "--bucket: give the place"),
        (("copy", "first", *REQUIRED[:2], "--bucket=mine"), "mine is not a gs://bucket/folder"),
        (("logs", "first"), "give --project and --zone"),
    ],
)
def test_bad_input_is_one_line(cloud, capsys, monkeypatch, arguments, line):
    for name in ("CLOUDSDK_CORE_PROJECT", "CLOUDSDK_COMPUTE_ZONE"):
        monkeypatch.delenv(name, raising=False)
    assert cloud.launch("tpu", *arguments) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert line in said
    assert cloud.verbs == []


# --- preemptions and failures ---------------------------------------------------------------------


@pytest.mark.parametrize("when", ["scp", "worker.sh install", "worker.sh jail", "worker.sh start", "worker.sh logs"])
def test_new_slices_continue_after_preemptions(cloud, when):
    cloud.script = Script(preemptions={when: 2}, states=["PROVISIONING", "ACTIVE"])
    assert up(cloud, "--spot", "--retries=0") == 0
    assert cloud.verbs.count("create") == 3
    again = cloud.verbs.index("delete")
    assert cloud.verbs[again + 1] == "create"
    assert cloud.verbs[-8:] == ["install", "jail", "start", "logs", "status", *DONE]
    assert is_gone(cloud)


def test_a_slice_that_is_suspended_while_being_created_is_requested_again(cloud):
    cloud.queue = ["SUSPENDING", "SUSPENDED"]
    assert up(cloud) == 0
    assert cloud.verbs[:3] == ["delete", "create", "scp"]


@pytest.mark.parametrize("end", [["exit 1", "exit 1"], ["exit 130"], ["exit 0", "exit 137"], ["lost"], ["none"]])
def test_training_restarts_after_a_failure(cloud, end):
    cloud.script = Script(endings=[end, end, ["exit 0"]])
    assert up(cloud, "--retries=2") == 0
    assert cloud.verbs.count("start") == 3
    assert cloud.verbs.count("create") == 1


def test_too_many_failures_end_the_launch(cloud, capsys):
    cloud.script = Script(endings=[["exit 1", "exit 0"]])
    assert up(cloud, "--retries=2") == 1
    assert cloud.verbs.count("start") == 3
    assert "training failed: exit 1" in capsys.readouterr().err
    assert cloud.verbs[-3:] == DONE and is_gone(cloud)


def test_a_configuration_that_training_refuses_is_not_tried_again(cloud):
    cloud.script = Script(endings=[["exit 2", "exit 2"]])
    assert up(cloud) == 1
    assert cloud.verbs.count("start") == 1
    assert cloud.verbs[-3:] == DONE and is_gone(cloud)


@pytest.mark.parametrize("step", ["git archive", "scp", "worker.sh install", "worker.sh jail", "worker.sh start"])
def test_the_slices_are_deleted_whichever_step_keeps_failing(cloud, capsys, step):
    cloud.script = Script(failures={step: (99, "no", 1)})
    assert up(cloud, "--retries=1") == 1
    assert step in capsys.readouterr().err.splitlines()[-1]
    assert cloud.verbs[-3:] == DONE and is_gone(cloud)


@pytest.mark.parametrize(
    "step", ["worker.sh logs", "worker.sh status", "scp", "describe", "worker.sh stop", "rsync --recursive gs://"]
)
def test_a_step_that_fails_once_does_no_harm(cloud, step):
    cloud.script = Script(failures={step: (1, "connection reset", 255)})
    assert up(cloud) == 0
    assert cloud.verbs[-1] == "delete" and is_gone(cloud)


def test_workers_that_stay_unreachable_are_given_up_and_deleted(cloud):
    cloud.script = Script(failures={"worker.sh status": (99, "connection refused", 255)})
    assert up(cloud, "--retries=0") == 1
    assert cloud.verbs[-3:] == DONE and is_gone(cloud)


def test_a_request_that_is_not_met_fails_and_is_deleted(cloud, capsys):
    cloud.script = Script(states=["WAITING_FOR_RESOURCES", "FAILED"])
    assert up(cloud) == 1
    assert "the request for slices failed" in capsys.readouterr().err
    assert cloud.verbs == ["create", "delete"] and is_gone(cloud)


def test_a_request_that_is_refused_leaves_nothing(cloud):
    cloud.script = Script(failures={CREATE: (9, "PERMISSION_DENIED", 1)})
    assert up(cloud) == 1
    assert set(cloud.verbs) <= {"create", "copy"} and is_gone(cloud)


def test_deletion_is_retried_until_it_succeeds(cloud):
    cloud.script = Script(failures={DELETE: (7, "not supported when state is PROVISIONING", 1)})
    assert up(cloud) == 0
    assert cloud.verbs.count("delete") == 8 and is_gone(cloud)


def test_slices_that_cannot_be_deleted_are_reported_with_the_command_that_stops_the_billing(cloud, capsys):
    cloud.script = Script(failures={DELETE: (999, "INTERNAL", 1)})
    assert up(cloud) == 1
    said = capsys.readouterr().err
    assert "may still be BILLED; delete them: gcloud compute tpus queued-resources delete first --project=me" in said


@pytest.mark.parametrize("moment", ["worker.sh install", "worker.sh logs"])
def test_an_interrupted_launch_stops_copies_and_deletes(cloud, moment):
    cloud.script = Script(interrupts=(moment,))
    assert up(cloud) == 130
    assert cloud.verbs[-3:] == DONE and is_gone(cloud)


def test_a_launch_interrupted_while_requesting_withdraws_its_request(cloud):
    cloud.script = Script(interrupts=(CREATE,), states=("WAITING_FOR_RESOURCES",))
    assert up(cloud) == 130
    assert cloud.verbs == ["create", "delete"] and is_gone(cloud)


def test_slices_are_kept_on_request(cloud):
    assert up(cloud, "--keep") == 0
    assert cloud.verbs[-2:] == ["stop", "copy"]
    assert cloud.queue == ["ACTIVE"]


# --- repeated ----------------------------------------------------------------------------------------


def test_up_joins_existing_slices_without_checking_again(cloud):
    cloud.queue = ["ACTIVE"]
    cloud.script = Script(failures={"git diff": (9, "", 1)})
    assert up(cloud) == 0
    assert cloud.verbs == ["scp", "install", "jail", "start", "logs", "status", *DONE]


def test_creating_and_deleting_twice_is_creating_and_deleting_once(cloud):
    for _ in range(2):
        assert cloud.launch("tpu", "create", *RUN) == 0
    assert cloud.verbs == ["create"]
    for _ in range(2):
        assert cloud.launch("tpu", "delete", "first", *REQUIRED) == 0
    assert cloud.verbs == ["create", "delete"]


def test_each_step_is_usable_alone(cloud):
    for step in ("create", "install", "start", "logs", "status", "stop", "copy", "delete"):
        assert cloud.launch("tpu", step, *RUN) == 0
    assert cloud.verbs == ["create", "scp", "install", "jail", "start", "logs", "status", *DONE]


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [  # cloud.google.com/tpu/docs: configurations of v4, v5e, v5p and v6e
        ("v4:2x2x1", "v4-8"),
        ("v4:2x2x4", "v4-32"),
        ("v5e:1x1", "v5litepod-1"),
        ("v5e:2x4", "v5litepod-8"),
        ("v5e:4x4", "v5litepod-16"),
        ("v5e:16x16", "v5litepod-256"),
        ("v5p:2x2x1", "v5p-8"),
        ("v5p:4x4x4", "v5p-128"),
        ("v6e:8x8", "v6e-64"),
    ],
)
def test_slices_are_what_google_cloud_calls_them(name, accelerator):
    assert find_slice(name).accelerator_type == accelerator


def test_every_kind_of_tpu_can_be_launched_except_tpu7x_which_is_on_gke_alone():
    assert KINDS.keys() == {kind for kind, chip in CHIPS.items() if chip.dimensions} - {"tpu7x"}


def test_a_missing_answer_is_an_error_and_not_a_state():
    with pytest.raises(LaunchError, match="unknown: ERROR: deadline exceeded"):
        read_state(Answer(1, "", "ERROR: deadline exceeded\n"))
    with pytest.raises(LaunchError, match="cannot be reached: exit code 0"):
        read_training(Answer(0, "", ""))
    with pytest.raises(LaunchError, match="cannot be reached"):
        read_training(Answer(255, "training: exit 0\n", "one of two did not answer\n"))
