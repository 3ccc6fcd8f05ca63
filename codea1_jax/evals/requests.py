"""What players are asked in an evaluation.

Every request has its own random stream, so what a player writes for it does not depend on the other requests.
"""

import hashlib
from collections.abc import Sequence

from codea1_jax.game.players import ConversationRequest, ProgramRequest, SuiteRequest
from data_pipeline import Problem

_PROGRAM, _SUITE, _TEST_FUNCTION = 0, 1, 3  # kinds of requests, for their random streams


def program_requests(problems: Sequence[Problem], samples: int, stream: tuple[int, ...] = ()) -> list[ProgramRequest]:
    return [ProgramRequest(p, samples, (*stream, _PROGRAM, 0, _number_of(p))) for p in problems]


def suite_request(problem: Problem, program: str, samples: int = 1, number: int = 0) -> SuiteRequest:
    """`samples` suites against a program, the problem's candidate of that number."""
    return SuiteRequest(problem, program, samples, (_SUITE, number, _number_of(problem)))


def conversation_request(problem: Problem, earlier: Sequence[str]) -> ConversationRequest:
    return ConversationRequest(problem, tuple(earlier), (_TEST_FUNCTION, len(earlier), _number_of(problem)))


def _number_of(problem: Problem) -> int:
    return int.from_bytes(hashlib.sha256(problem.id.encode()).digest()[:4], "big") >> 1
