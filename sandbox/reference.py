"""Remembers what reference solutions return, so that each call is computed once for all candidates and epochs."""

import dataclasses
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

from sandbox.jobs import Execution, Job, Outcome, Request, Status
from sandbox.judge import Judge, then

_REMEMBERED = (Status.RETURNED, Status.RAISED, Status.NOT_PLAIN_DATA)
_Key = tuple[Job, str | None]  # the job without its calls, and a call, or None for the program's loading


class ReferenceCache(Judge):
    """Remembers what references answer, in front of another judge, to which it passes all other jobs.

    Outcomes are keyed by content (program, limits, entry point, call); those last used are kept, up to `characters` of
    calls and answers. Only values and the program's own exceptions are: any other end may be the machine's fault.
    """

    def __init__(self, judge: Judge, characters: int = 1 << 28) -> None:
        """`judge` is closed with this one."""
        self.limits, self.memory_limit = judge.limits, judge.memory_limit
        self.hits = 0
        self.misses = 0
        self._judge = judge
        self._characters = characters
        self._outcomes: OrderedDict[_Key, Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def submit(self, job: Request[Any]) -> Future[Any]:
        """Run a reference's calls that are not known yet (nothing at all where every call is), or any other job."""
        # Calls together share a process and its time: none is known by itself.
        if not isinstance(job, Job) or not job.is_reference or job.together:
            return self._judge.submit(job)
        program = dataclasses.replace(job, calls=())
        with self._lock:
            loaded = self._recall((program, None))
            known = {call: outcome for call in job.calls if (outcome := self._recall((program, call))) is not None}
            missing = tuple(dict.fromkeys(call for call in job.calls if call not in known))
            self.hits += len(known)
            self.misses += len(missing)
        if loaded is not None and not missing:
            done: Future[Execution] = Future()
            done.set_result(Execution(loaded, tuple(known[call] for call in job.calls), 0.0))
            return done

        def complete(execution: Execution) -> Execution:
            outcomes = known | dict(zip(missing, execution.outcomes, strict=True))
            self._remember(program, execution.loaded, outcomes)
            return dataclasses.replace(execution, outcomes=tuple(outcomes[call] for call in job.calls))

        return then(self._judge.submit(dataclasses.replace(job, calls=missing)), complete)

    def close(self) -> None:
        self._judge.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._judge.__exit__(kind, error, trace)

    def _recall(self, key: _Key) -> Outcome | None:
        outcome = self._outcomes.get(key)
        if outcome is not None:
            self._outcomes.move_to_end(key)
        return outcome

    def _remember(self, program: Job, loaded: Outcome, outcomes: dict[str, Outcome]) -> None:
        with self._lock:
            for call, outcome in ((None, loaded), *outcomes.items()):
                if outcome.status in _REMEMBERED and (program, call) not in self._outcomes:
                    self._outcomes[program, call] = outcome
                    self._characters -= _size(call, outcome)
            while self._characters < 0:
                (_, call), outcome = self._outcomes.popitem(last=False)
                self._characters += _size(call, outcome)


def _size(call: str | None, outcome: Outcome) -> int:
    return 200 + len(call or "") + len(outcome.value or "") + len(outcome.detail) + len(outcome.inputs)
