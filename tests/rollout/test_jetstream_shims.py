"""JetStream's Driver as the shims leave it, over an engine without a model."""

import asyncio
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from codea1_jax.rollout.jetstream.shims import AsyncMultifuture, engine_api, orchestrator, protocol


class Engine:
    """Two slots. A request is complete after its first block, which can be read once `readable` is set."""

    max_concurrent_decodes = 2
    samples_per_slot = 1
    max_prefill_length = 16

    def __init__(self):
        self.inserted = self.decoded = False
        self.readable = threading.Event()
        self.readable.set()

    def get_tokenizer(self):
        return None

    def build_tokenizer(self, _metadata):
        return SimpleNamespace(bos_id=0, pad_id=0, stop_tokens=set())

    def init_decode_state(self):
        return None

    def prefill(self, **_prompt):
        return None

    def insert(self, _prefix, state, slot):
        self.inserted, self.decoded = True, False
        self.readable.clear()
        return state

    def generate(self, _params, state):
        self.decoded = True
        token_valid_length = np.tile(np.array([7, 0, 1]), (self.max_concurrent_decodes, 1))
        return state, DecodedBlock(token_valid_length, (0, 1), (1, 2), (2, 3), self.samples_per_slot, self.readable)


class DecodedBlock(engine_api.ResultTokens):
    def __init__(self, data, tokens, valid, length, samples, readable):
        super().__init__(data, tokens, valid, length, samples)
        object.__setattr__(self, "readable", readable)

    def copy_to_host_async(self):
        pass

    def convert_to_numpy(self):
        assert self.readable.wait(100)
        return self


@pytest.fixture
def start(monkeypatch):
    """Depends on `monkeypatch` so that its patches last until every Driver has stopped: an answer is there a moment
    before its slot is free."""
    drivers = []

    def start(engine):
        driver = orchestrator.Driver([engine], [engine], [None], [None], interleaved_mode=True, jax_padding=False)
        drivers.append(driver)
        return driver

    yield start
    for driver in drivers:
        driver.stop()


async def ask(driver):
    prompt = protocol.DecodeRequest.TokenContent(token_ids=np.arange(3))
    request = protocol.DecodeRequest(token_content=prompt, max_tokens=1)
    return [response async for response in orchestrator.LLMOrchestrator(driver).Decode(request)]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_last_slot_may_be_freed_just_before_a_block_is_decoded(start, monkeypatch):
    engine = Engine()
    driver = start(engine)
    slots, backlog = driver._generate_slots[0], driver._prefill_backlog
    freed = threading.Event()

    def put(slot, block=True):
        queue.Queue.put(slots, slot, block)
        if threading.current_thread() in driver.detokenize_threads:
            freed.set()

    def empty():
        """Called by the generating thread after it has counted the free slots: only now is the request completed."""
        if engine.inserted and engine.decoded:
            engine.inserted = False
            freed.clear()
            engine.readable.set()
            assert freed.wait(100)
        return queue.Queue.empty(backlog)

    monkeypatch.setattr(slots, "put", put)
    monkeypatch.setattr(backlog, "empty", empty)
    for _ in range(3):
        assert len(asyncio.run(asyncio.wait_for(ask(driver), 30))) == 1


def test_a_reader_that_is_gone_with_its_event_loop_harms_nobody():
    async def channel():
        return AsyncMultifuture()

    orphan = asyncio.run(channel())
    orphan.add_result([])
    orphan.close()
    assert not orphan.cancelled()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_does_not_kill_the_process(start):
    class Broken(Engine):
        def prefill(self, **_prompt):
            raise RuntimeError("out of memory")

    driver = start(Broken())
    request = orchestrator.ActiveRequest(max_tokens=1, return_channel=None, prefill_content=np.arange(3))
    driver.place_request_on_prefill_queue(request)
    driver._prefill_threads[0].join(30)
    assert not driver._prefill_threads[0].is_alive()
