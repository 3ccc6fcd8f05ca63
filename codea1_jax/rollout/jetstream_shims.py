"""google-jetstream 0.2.2, its last release, as it can be used here. Whatever is needed of it is imported from here.

Each shim says what it mends; all of them are applied once, when this module is imported. Raises ModuleNotFoundError
where JetStream is not installed (extra `jetstream`).
"""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax


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

orchestrator.delete_pytree = _delete_pytree

# JetStream logs several lines for every block of tokens to the root logger; with a logger of its own they can be
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
