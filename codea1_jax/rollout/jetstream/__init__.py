"""The rollout as a JetStream engine. Needs the extra `jetstream` (google-jetstream 0.2.2, its last release)."""

import sys
from types import ModuleType


def _import_without_seqio() -> None:
    """Imports JetStream's engine API, which imports two names of seqio for SentencePiece vocabularies.

    The real seqio imports TensorFlow: 18 seconds and 840 MB. So an empty stand-in is there during the import, and
    seqio need not even be installed. Raises ModuleNotFoundError where JetStream is not installed.
    """
    names = () if "seqio" in sys.modules else ("seqio", "seqio.vocabularies")
    for name in names:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update({kind: type(kind, (), {}) for kind in ("Vocabulary", "SentencePieceVocabulary")})
    try:
        import jetstream.engine.engine_api  # noqa: F401, PLC0415  only while the stand-in is there
    finally:
        for name in names:
            del sys.modules[name]


_import_without_seqio()

__all__ = ["engine"]
