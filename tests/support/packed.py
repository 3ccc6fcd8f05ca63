"""Tests as LiveCodeBench packs them."""

import base64
import pickle
import zlib


def packed(value: object) -> str:
    """Base64 of zlib of a pickle."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()
