"""Jobs and results as JSON, for judges on other machines."""

import dataclasses
from typing import Any

from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, Outcome, Status, Verdict, VerdictStatus

MAX_CALLS = 20_000  # of one job, each of which may be answered by kilobytes


def job_to_json(job: Job | CheckJob) -> dict[str, Any]:
    """A job as its fields."""
    return dataclasses.asdict(job)


def job_from_json(fields: Any) -> Job:
    """Raises ValueError where the fields are not a job's."""
    _require_fields(fields, Job)
    calls = fields["calls"]
    _require(isinstance(calls, list) and all(isinstance(call, str) for call in calls), "calls must be texts")
    _require(len(calls) <= MAX_CALLS, f"a job has at most {MAX_CALLS} calls")
    flags = {name: fields[name] for name in ("is_reference", "together")}
    _require(all(isinstance(flag, bool) for flag in flags.values()), "is_reference and together must be true or false")
    texts = _text(fields, "program"), tuple(calls), _limits(fields), _text(fields, "entry_point")
    return Job(*texts, **flags)


def check_from_json(fields: Any) -> CheckJob:
    """Raises ValueError where the fields are not a check's."""
    _require_fields(fields, CheckJob)
    _require(isinstance(fields["in_process"], bool), "in_process must be true or false")
    texts = [_text(fields, name) for name in ("program", "check", "entry_point")]
    return CheckJob(*texts, limits=_limits(fields), in_process=fields["in_process"])


def result_to_json(result: Execution | CheckResult) -> dict[str, Any]:
    """A result as its fields."""
    return dataclasses.asdict(result)


def execution_from_json(fields: dict[str, Any]) -> Execution:
    """Raises ValueError, TypeError or KeyError where the fields are not an execution's."""
    outcomes = tuple(_outcome(outcome) for outcome in fields["outcomes"])
    return Execution(_outcome(fields["loaded"]), outcomes, float(fields["cpu_seconds"]))


def check_result_from_json(fields: dict[str, Any]) -> CheckResult:
    """Raises ValueError, TypeError or KeyError where the fields are not a check result's."""
    verdict = fields["verdict"]
    judged = Verdict(VerdictStatus(verdict["status"]), verdict["value"], verdict["detail"])
    return CheckResult(_outcome(fields["loaded"]), judged, float(fields["cpu_seconds"]))


def _outcome(fields: dict[str, Any]) -> Outcome:
    return Outcome(Status(fields["status"]), fields["value"], fields["detail"], fields["inputs"])


def _limits(fields: dict[str, Any]) -> Limits | None:
    limits = fields["limits"]
    if limits is None:
        return None
    _require_fields(limits, Limits)
    return Limits(**limits)


def _require_fields(fields: Any, kind: type) -> None:
    """Raise ValueError unless `fields` are an object with the fields of a dataclass, and no others."""
    names = {field.name for field in dataclasses.fields(kind)}
    _require(isinstance(fields, dict), f"a {kind.__name__} must be an object")
    _require(fields.keys() == names, f"a {kind.__name__} must have exactly the fields {', '.join(sorted(names))}")


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    _require(isinstance(value, str), f"{name} must be a text")
    return value


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
