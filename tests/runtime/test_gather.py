"""A round that two hosts judge together is the round that one judges alone."""

from pathlib import Path
from typing import Any

import pytest
from gather_worker import played
from workers import found_by, start_two

WORKER = Path(__file__).with_name("gather_worker.py")


@pytest.fixture(scope="module")
def hosts() -> list[dict[str, Any]]:
    """What two hosts have found."""
    return [found_by(worker) for worker in start_two(WORKER)]


def test_two_hosts_judge_a_share_each_and_know_the_same(hosts):
    first, second = hosts
    alone = played()
    assert first["rewards"] == second["rewards"] == alone["rewards"]
    assert len({reward for rewards in alone["rewards"] for reward in rewards}) > 3
    assert first["jobs"] + second["jobs"] == alone["jobs"]
    assert min(first["jobs"], second["jobs"]) > 0.3 * alone["jobs"]
    # What the slow host could not answer, neither knows; they part ways in nothing.
    assert first["golden"] == second["golden"] == [3, 2, 3, 2, 3]
    assert first["figures"] == second["figures"]
    assert 0 < first["figures"]["eval/avg_at_n"] < alone["figures"]["eval/avg_at_n"]
    assert first["figures"]["eval/pass_at_5"] < alone["figures"]["eval/pass_at_5"]
    assert first["questions"] == second["questions"]
    assert 0 < len(first["questions"]) < len(alone["questions"])


def test_shares_of_any_size_come_through_by_a_few_compiled_programs(hosts):
    for host in hosts:
        assert all(host["shared"])
        assert host["compiled"] == 4  # one for the sizes, and for rows of 1,024, 2,048 and 4,096 bytes
