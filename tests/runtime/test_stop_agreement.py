"""Hosts that run the same program stop at the same point of it, wherever each of them is when one is asked to."""

import random
import threading
import time

import pytest

from codea1_jax.common.errors import Interrupted
from codea1_jax.runtime.agreement import Agreement


class Shelf:
    """A board for threads that stand for hosts."""

    def __init__(self):
        self.texts, self.lock = {}, threading.Lock()

    def write(self, key, text):
        with self.lock:
            self.texts[key] = text

    def read(self, folder):
        with self.lock:
            return {key: text for key, text in self.texts.items() if key.startswith(folder + "/")}

    def erase(self, folder):
        with self.lock:
            for key in [key for key in self.texts if key.startswith(folder + "/")]:
                del self.texts[key]


class Collective:
    """What hosts compute together: nobody leaves it before all have come."""

    def __init__(self, count):
        self.barrier = threading.Barrier(count)

    def __call__(self):
        self.barrier.wait(timeout=60)


def run_hosts(programs):
    """Runs a program for each host, in threads; what each returned or raised."""
    board, ends = Shelf(), [None] * len(programs)

    def host(index):
        with Agreement(board, index, len(programs)) as agreement:
            try:
                ends[index] = programs[index](agreement)
            except (Interrupted, ZeroDivisionError) as error:
                ends[index] = error

    threads = [threading.Thread(target=host, args=(i,), daemon=True) for i in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    assert not any(thread.is_alive() for thread in threads), "hosts wait for each other for ever"
    return ends, board


@pytest.mark.parametrize("seed", range(6))
def test_all_stop_at_the_same_point_whoever_is_asked_and_wherever_they_are(seed):
    """Hosts of different speeds compute together and judge alone; one is told to stop at a random moment."""
    chance = random.Random(seed)
    count, steps = chance.choice([2, 3]), 400
    kinds = [chance.choice(["together", "alone", "judge"]) for _ in range(steps)]
    together = [Collective(count) for _ in range(steps)]
    victim, moment = chance.randrange(count), chance.uniform(0, 0.6)
    places = [None] * count

    def program(agreement, index):
        pace = random.Random(seed * 10 + index)
        if index == victim:
            threading.Timer(moment, agreement.ask, ["SIGTERM"]).start()
        for step, kind in enumerate(kinds):
            places[index] = step
            if kind == "together":
                together[step]()
                agreement.pass_point()
            elif kind == "alone":
                time.sleep(pace.uniform(0, 0.01))
                agreement.pass_point()
            else:
                agreement.work(lambda: time.sleep(pace.uniform(0, 0.02)))
                together[step]()
        return "finished"

    ends, _ = run_hosts([lambda agreement, index=i: program(agreement, index) for i in range(count)])
    assert [type(end) for end in ends] == [Interrupted] * count
    assert len(set(places)) == 1, "a host continued to what the others will never do with it"
    assert [str(end) for end in ends] == [
        "SIGTERM" if i == victim else "a signal to another host" for i in range(count)
    ]


def test_a_host_whose_judge_takes_long_stops_at_once_and_so_do_those_that_wait_for_it():
    release = threading.Event()

    def program(agreement, slow):
        if slow:
            threading.Timer(0.2, agreement.ask, ["SIGTERM"]).start()
        agreement.work(lambda: release.wait(300) if slow else None)

    started = time.monotonic()
    ends, _ = run_hosts([lambda a: program(a, slow=False), lambda a: program(a, slow=True)])
    release.set()
    assert [type(end) for end in ends] == [Interrupted] * 2
    assert time.monotonic() - started < 20


def test_what_follows_a_stop_is_not_stopped():
    """The checkpoint is written by all hosts, through points as well."""

    def program(agreement):
        agreement.ask("SIGTERM")
        with pytest.raises(Interrupted):
            while True:
                agreement.pass_point()
        agreement.pass_point()
        return agreement.work(lambda: "saved")

    ends, _ = run_hosts([program, program])
    assert ends == ["saved", "saved"]


def test_work_that_fails_is_raised_and_meetings_leave_nothing_behind():
    def program(agreement, fails):
        for _ in range(3):
            agreement.work(lambda: None)
        if fails:
            return agreement.work(lambda: 1 // 0)
        return "not asked"

    ends, board = run_hosts([lambda a: program(a, fails=True), lambda a: program(a, fails=False)])
    assert isinstance(ends[0], ZeroDivisionError) and ends[1] == "not asked"
    assert len(board.texts) == 2  # of the last meeting
