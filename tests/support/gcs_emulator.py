"""Google Cloud Storage on this machine: as much of its JSON interface as gcsfs, tensorstore and google-cloud-storage
use, with generations and their preconditions, and with faults on demand.

Not `gcp-storage-emulator`: that one has no preconditions, so writes that race are not what they are in the cloud.
"""

import base64
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import google_crc32c
from emulator import serving

Fault = Callable[[], str | None]  # asked at every request: None, "503", "reset" (before or after the work) or "slow"


@dataclass
class Stored:
    data: bytes
    generation: int


@dataclass
class Emulator:
    """Buckets and their objects; `environment` makes clients come here. A private one wants credentials."""

    port: int = 0
    private: bool = False
    buckets: set[str] = field(default_factory=lambda: {"bucket"})
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    fault: Fault = lambda: None
    faults: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    generation: int = 0
    uploads: dict[str, bytes] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        address = f"http://127.0.0.1:{self.port}"
        return {
            "TENSORSTORE_GCS_HTTP_URL": address,
            "STORAGE_EMULATOR_HOST": address,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # asks the real cloud by gRPC
        }

    def names(self, prefix: str = "") -> list[str]:
        """Objects of every bucket, as bucket/name."""
        with self.lock:
            return sorted(name for name in ("/".join(key) for key in self.objects) if name.startswith(prefix))

    def put(self, bucket: str, name: str, data: bytes) -> Stored:
        with self.lock:
            self.generation += 1
            self.objects[bucket, name] = Stored(data, self.generation)
            return self.objects[bucket, name]


@contextmanager
def running_emulator() -> Iterator[Emulator]:
    """An emulator with one empty bucket, `bucket`."""
    emulator = Emulator()
    with serving(emulator, _Handler) as emulator.port:
        yield emulator


def random_faults(seed: int, share: float) -> Fault:
    """A share of the requests meets a 503, a reset or a slow answer."""
    draw = random.Random(seed)
    return lambda: draw.choice(["503", "reset before", "reset after", "slow"]) if draw.random() < share else None


class _Refused(Exception):
    """An answer that is no success: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    emulator: Emulator

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.emulator.lock:
            fault = self.emulator.fault()
            self.emulator.faults += fault is not None
        if fault == "slow":
            time.sleep(0.5)
        if fault == "503":
            return self._answer(503, b'{"error": {"code": 503, "message": "injected"}}')
        if fault == "403":
            return self._answer(403, b'{"error": {"code": 403, "message": "no access to this bucket"}}')
        if fault == "reset before":
            return self._reset()
        try:
            with self.emulator.lock:
                status, answer, headers = self._route(body)
        except _Refused as refused:
            status, headers = refused.status, {}
            answer = json.dumps({"error": {"code": status, "message": str(refused)}}).encode()
        if fault == "reset after":
            return self._reset()
        return self._answer(status, answer, headers)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _handle

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.wfile = self.rfile = _Closed()

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        content = b"" if status in (204, 304) else content
        self.send_header("Content-Length", str(len(content)))
        with suppress(ConnectionError):  # the client has gone
            self.end_headers()
            self.wfile.write(content)

    # --- the interface ------------------------------------------------------------------------------

    def _route(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if self.emulator.private and "Authorization" not in self.headers:
            raise _Refused(401, "Anonymous caller does not have storage.objects.create access to the bucket.")
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        upload, parts = parts[0] == "upload", parts[parts.index("b") + 1 :]
        bucket = parts[0]
        if bucket not in self.emulator.buckets:
            raise _Refused(404, "The specified bucket does not exist.")
        if upload:
            return self._upload(bucket, query, body)
        if len(parts) == 1:
            return self._json({"kind": "storage#bucket", "name": bucket, "location": "US", "storageClass": "STANDARD"})
        if len(parts) == 2:
            return self._json(self._list(bucket, query))
        return self._object(bucket, parts[2], query)

    def _json(self, value: Any) -> tuple[int, bytes, dict[str, str]]:
        return 200, json.dumps(value).encode(), {}

    def _object(self, bucket: str, name: str, query: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        stored = self._stored(bucket, name, missing_ok="ifGenerationMatch" in query)
        self._check(stored, query)
        assert stored is not None
        if self.command == "DELETE":
            del self.emulator.objects[bucket, name]
            return 204, b"", {}
        if query.get("alt") != "media":
            return self._json(_describe(bucket, name, stored))
        headers = {"x-goog-generation": str(stored.generation), "Content-Type": "application/octet-stream"}
        if "Range" not in self.headers:
            return 200, stored.data, headers
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start, end = (int(first), int(last or len(stored.data) - 1)) if first else (len(stored.data) - int(last), None)
        content = stored.data[start : None if end is None else end + 1]
        if not content:
            raise _Refused(416, "range not satisfiable")
        span = f"bytes {start}-{start + len(content) - 1}/{len(stored.data)}"
        return 206, content, headers | {"Content-Range": span}

    def _stored(self, bucket: str, name: str, *, missing_ok: bool = False) -> Stored | None:
        stored = self.emulator.objects.get((bucket, name))
        if stored is None and not missing_ok:
            raise _Refused(404, f"No such object: {bucket}/{name}")
        return stored

    def _check(self, stored: Stored | None, query: dict[str, str]) -> None:
        have = stored.generation if stored else 0
        if "ifGenerationMatch" in query and int(query["ifGenerationMatch"]) != have:
            raise _Refused(412, "conditionNotMet")
        if "ifGenerationNotMatch" in query and int(query["ifGenerationNotMatch"]) == have:
            raise _Refused(304, "not modified")

    def _upload(self, bucket: str, query: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]]:
        name = query.get("name", "")
        if query["uploadType"] == "resumable":
            if "upload_id" not in query:
                self.emulator.generation += 1
                place = f"{self.path}&name={quote(name)}&upload_id={self.emulator.generation}"
                return 200, b"{}", {"Location": f"http://127.0.0.1:{self.emulator.port}{place}"}
            whole = self._continued(query["upload_id"], body)
            if whole is None:
                return 308, b"", {"Range": f"bytes=0-{len(self.emulator.uploads[query['upload_id']]) - 1}"}
            body = whole
        self._check(self.emulator.objects.get((bucket, name)), query)
        return self._json(_describe(bucket, name, self.emulator.put(bucket, name, body)))

    def _continued(self, upload: str, body: bytes) -> bytes | None:
        """An upload with this part of it: the whole, or None while some is missing. A part may come twice."""
        span, _, total = self.headers["Content-Range"].removeprefix("bytes ").partition("/")
        before = self.emulator.uploads.get(upload, b"")
        start = len(before) if span == "*" else int(span.partition("-")[0])
        whole = before[:start] + body
        self.emulator.uploads[upload] = whole
        return whole if total.isdecimal() and len(whole) == int(total) else None

    def _list(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        first, end = query.get("startOffset", ""), query.get("endOffset")
        items, prefixes = [], set()
        for (owner, name), stored in sorted(self.emulator.objects.items()):
            if owner != bucket or not name.startswith(prefix) or name < first or (end and name >= end):
                continue
            folder, slash, _ = name[len(prefix) :].partition(delimiter or "\0")
            if slash:
                prefixes.add(prefix + folder + slash)
            else:
                items.append(_describe(bucket, name, stored))
        return {"kind": "storage#objects", "items": items, "prefixes": sorted(prefixes)}


class _Closed:
    """What is left of a connection that was reset."""

    closed = True

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def _describe(bucket: str, name: str, stored: Stored) -> dict[str, Any]:
    checksum = google_crc32c.value(stored.data).to_bytes(4, "big")
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{stored.generation}",
        "bucket": bucket,
        "name": name,
        "generation": str(stored.generation),
        "metageneration": "1",
        "size": str(len(stored.data)),
        "crc32c": base64.b64encode(checksum).decode(),
        "timeCreated": moment,
        "updated": moment,
        "storageClass": "STANDARD",
        "contentType": "application/octet-stream",
    }
