"""Where checkpoints lie: a directory, or Google Cloud Storage. Both libraries that write there are tried beforehand.

Arrays go through tensorstore, everything else through gcsfs. Both repeat what meets a 5xx answer, a lost connection or
a slow one, gcsfs for half a minute; each finds credentials in its own way (`GOOGLE_APPLICATION_CREDENTIALS`, or `gcloud
auth application-default login`).
"""

import os
import uuid
from pathlib import Path

import tensorstore

from codea1_jax.common.errors import UserError

os.environ.setdefault("EPATH_USE_TF", "false")  # else etils prefers TensorFlow, where there is one, to gcsfs

from etils import epath

REMOTE = "gs://"

_FIX = (
    "create the bucket, and give credentials that may write there: "
    "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=key.json"
)


def locate(directory: str) -> Path | epath.Path:
    return epath.Path(directory) if directory.startswith(REMOTE) else Path(directory).absolute()


def check_writable(directory: str) -> None:
    """Raises UserError, saying what is missing, if a bucket cannot be written to."""
    if not directory.startswith(REMOTE):
        return
    bucket, _, folder = directory.removeprefix(REMOTE).partition("/")
    if not bucket or not folder.strip("/"):
        raise UserError(f"checkpoint.directory: {directory} is not a gs://bucket/path")
    name = f".writable-{uuid.uuid4().hex}"
    try:
        probe = epath.Path(directory) / name
        probe.write_text("")
        spec = {"driver": "gcs", "bucket": bucket}
        tensorstore.KvStore.open(spec).result().write(f"{folder.rstrip('/')}/{name}", b"").result()
        probe.unlink()
    except FileNotFoundError as error:  # by which gcsfs means that the service answered 404
        raise UserError(f"checkpoint.directory: {directory}: there is no bucket {bucket}; {_FIX}") from error
    except Exception as error:  # gcsfs, aiohttp, google.auth and tensorstore share no class of errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"checkpoint.directory: cannot write to {directory} ({reason}); {_FIX}") from error


def check_shared(directory: str) -> None:
    """Raises UserError if the directory, which the first host has made, is not to be seen from here.

    A bucket is every host's, and has no directories that could be made.
    """
    if not (directory.startswith(REMOTE) or locate(directory).exists()):
        raise UserError(
            f"checkpoint.directory: {directory} is not shared by all hosts; set it to gs://bucket/path or to a "
            "directory that every host mounts"
        )
