"""google-jetstream 0.2.2, its last release, as it can be used here. Whatever is needed of it is imported from here.

Each shim states what it fixes; all of them are applied once, when this module is imported. Raises ModuleNotFoundError
where JetStream is not installed (extra `jetstream`).
"""

from __future__ import annotations

import functools
import logging
import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np


@contextmanager
def _stand_in_for_seqio() -> Iterator[None]:
    """JetStream imports two names of seqio for SentencePiece vocabularies, which Qwen2 models have none of.

    The real seqio imports TensorFlow: 18 seconds and 840 MB. So an empty stand-in is there during the import, and
    seqio need not even be installed.
    """
    if "seqio" in sys.modules:
        yield
        return
    seqio, vocabularies = types.ModuleType("seqio"), types.ModuleType("seqio.vocabularies")
    vars(vocabularies).update({name: type(name, (), {}) for name in ("Vocabulary", "SentencePieceVocabulary")})
    vars(seqio)["vocabularies"] = vocabularies
    sys.modules.update({"seqio": seqio, "seqio.vocabularies": vocabularies})
    try:
        yield
    finally:
        del sys.modules["seqio"], sys.modules["seqio.vocabularies"]


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """JetStream sets the root logger to DEBUG and has it write to standard output when it is imported."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def _delete_pytree(tree: Any) -> None:
    """JetStream's own calls `jax.tree_map`, which JAX no longer has. Frees a prefix that has been inserted."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array):
            leaf.delete()


with _stand_in_for_seqio(), _root_logger_kept():
    from jetstream.core import orchestrator
    from jetstream.core.proto import jetstream_pb2, jetstream_pb2_grpc
    from jetstream.core.utils.async_multifuture import AsyncMultifuture
    from jetstream.core.utils.return_sample import ReturnSample
    from jetstream.engine import engine_api, token_utils, tokenizer_api, tokenizer_pb2

# Made at run time, so a type checker knows nothing of their messages.
protocol: Any = jetstream_pb2
TokenizerParameters: Any = vars(tokenizer_pb2)["TokenizerParameters"]


def _unless_reader_is_gone(send: Callable[..., None]) -> Any:
    """JetStream's own raises in the Driver's thread once the event loop of its reader is closed.

    That happens even to a reader that has its whole answer: `set_exception` calls the loop twice, and the first call
    wakes the reader, which may close the loop before the second.
    """

    @functools.wraps(send)
    def wrapped(channel: Any, content: Any) -> None:
        try:
            send(channel, content)
        except RuntimeError:
            if not channel._loop.is_closed():
                raise

    return wrapped


def _generate_thread(self: Any, idx: int) -> None:
    """Fills free slots and decodes a block, again and again. The same as JetStream's own except for one assertion.

    JetStream's own looks for a request, then asserts that some slot is taken. The detokenizing thread may have freed
    the last slot in between, and the assertion ended the process. A block that is never waited for is harmless.
    """
    engine, params = self._generate_engines[idx], self._generate_params[idx]
    free_slots, prefilled = self._generate_slots[idx], self._generate_backlogs[idx]
    results = self._detokenize_backlogs[idx]
    state = engine.init_decode_state()
    step = 0
    while self.live:
        while not free_slots.empty():
            idle = free_slots.qsize() == engine.max_concurrent_decodes
            more_to_come = not self._prefill_backlog.empty() or not self._transfer_backlogs[idx].empty()
            wait = idle or (self._interleaved_mode and more_to_come)
            try:
                request = prefilled.get(block=wait, timeout=1.0)
            except queue.Empty:
                if wait:
                    continue
                break
            if request is None:  # the Driver stops
                return
            slot = free_slots.get()  # no other thread takes one
            state = engine.insert(request.prefill_result, state, slot=slot)
            orchestrator.delete_pytree(request.prefill_result)
            request.generate_timestep_added = step
            request.complete = np.zeros(engine.samples_per_slot, dtype=bool)
            results.put((slot, request))
        state, block = engine.generate(params, state)
        block.copy_to_host_async()
        results.put((step, block))
        step += 1


orchestrator.delete_pytree = _delete_pytree
orchestrator.Driver._generate_thread = _generate_thread
AsyncMultifuture.add_result = _unless_reader_is_gone(AsyncMultifuture.add_result)
AsyncMultifuture.set_exception = _unless_reader_is_gone(AsyncMultifuture.set_exception)

# JetStream's own thread kills the process where it fails: clients get no answer and the log shows nothing.
orchestrator.JetThread = threading.Thread

# JetStream logs several lines for every block of tokens to the root logger; with its own logger they can be
# asked for, and are not shown otherwise. A Logger answers to the functions of the module that it stands in for.
_logger: Any = logging.getLogger("jetstream")
_logger.setLevel(logging.WARNING)
orchestrator.logging = token_utils.logging = _logger

__all__ = [
    "AsyncMultifuture",
    "ReturnSample",
    "TokenizerParameters",
    "engine_api",
    "jetstream_pb2_grpc",
    "orchestrator",
    "protocol",
    "tokenizer_api",
]
