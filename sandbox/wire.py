"""Jobs and results as JSON, for judges on other machines."""

import dataclasses
from typing import Any

from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, Outcome, Status, Verdict, VerdictStatus


def job_to_json(job: Job | CheckJob) -> dict[str, Any]:
    """A job as its fields."""
    return dataclasses.asdict(job)


def job_from_json(fields: dict[str, Any]) -> Job:
    """Raises ValueError, TypeError or KeyError where the fields are no job's."""
    calls = fields["calls"]
    _require(isinstance(calls, list) and all(isinstance(call, str) for call in calls), "calls must be texts")
    return Job(_text(fields, "program"), tuple(calls), _limits(fields), _text(fields, "entry_point"))


def check_from_json(fields: dict[str, Any]) -> CheckJob:
    """Raises ValueError, TypeError or KeyError where the fields are no check's."""
    texts = [_text(fields, name) for name in ("program", "check", "entry_point")]
    return CheckJob(*texts, limits=_limits(fields), beside=bool(fields["beside"]))


def result_to_json(result: Execution | CheckResult) -> dict[str, Any]:
    """A result as its fields."""
    return dataclasses.asdict(result)


def execution_from_json(fields: dict[str, Any]) -> Execution:
    """Raises ValueError, TypeError or KeyError where the fields are no execution's."""
    outcomes = tuple(_outcome(outcome) for outcome in fields["outcomes"])
    return Execution(_outcome(fields["loaded"]), outcomes, float(fields["cpu_seconds"]))


def check_result_from_json(fields: dict[str, Any]) -> CheckResult:
    """Raises ValueError, TypeError or KeyError where the fields are no check result's."""
    verdict = fields["verdict"]
    judged = Verdict(VerdictStatus(verdict["status"]), verdict["value"], verdict["detail"])
    return CheckResult(_outcome(fields["loaded"]), judged, float(fields["cpu_seconds"]))


def _outcome(fields: dict[str, Any]) -> Outcome:
    return Outcome(Status(fields["status"]), fields["value"], fields["detail"])


def _limits(fields: dict[str, Any]) -> Limits | None:
    limits = fields["limits"]
    return None if limits is None else Limits(**limits)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    _require(isinstance(value, str), f"{name} must be a text")
    return value


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
