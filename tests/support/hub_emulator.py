"""The Hugging Face Hub on this machine: as much of its interface as an upload by huggingface_hub needs."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from emulator import serving

TOKEN = "hf_emulated"
LARGE = (".safetensors", ".parquet")  # what the Hub keeps in its large file storage


@dataclass
class Emulator:
    """What has arrived: repositories by (type, name), large files by SHA-256; `environment` makes clients come here."""

    port: int = 0
    repos: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.address, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}

    def save(self, kind: str, name: str, folder: Path) -> Path:
        """Writes a repository to a folder."""
        for path, content in self.repos[kind, name].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder


@contextmanager
def running_hub() -> Iterator[Emulator]:
    """An empty Hub."""
    emulator = Emulator()
    with serving(emulator, _Handler) as emulator.port:
        yield emulator


class _Handler(BaseHTTPRequestHandler):
    emulator: Emulator
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, document: Any, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def do_PUT(self) -> None:
        content = self._body()
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(content).hexdigest() == oid
        self.emulator.large[oid] = content
        self._answer({})

    def do_GET(self) -> None:
        self._answer({"error": "not here"}, 404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer({"error": "Invalid username or password."}, 401)
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._answer({"errors": [], "warnings": []})
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._batch(json.loads(body))
        if action := re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)/(preupload|commit)/main", path):
            kind, name, what = action.groups()
            return self._preupload(json.loads(body)) if what == "preupload" else self._commit(kind, name, body)
        return self._answer({"error": f"unknown: {path}"}, 404)

    def _url(self, kind: str, name: str) -> str:
        return f"{self.emulator.address}/{'datasets/' if kind == 'dataset' else ''}{name}"

    def _create(self, asked: dict[str, Any]) -> None:
        kind, name = asked.get("type") or "model", f"{asked['organization']}/{asked['name']}"
        url = self._url(kind, name)
        if (kind, name) in self.emulator.repos:
            return self._answer({"error": "You already created this repo", "url": url}, 409)
        self.emulator.repos[kind, name] = {}
        self.emulator.private[name] = asked.get("private", False) or asked.get("visibility") == "private"
        return self._answer({"url": url, "name": name, "id": name})

    def _preupload(self, asked: dict[str, Any]) -> None:
        modes = {file["path"]: "lfs" if file["path"].endswith(LARGE) else "regular" for file in asked["files"]}
        self._answer(
            {"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]}
        )

    def _batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.emulator.address}/storage/{each['oid']}", "header": {}}}}
            for each in asked["objects"]
        ]
        self._answer({"transfer": "basic", "objects": objects})

    def _commit(self, kind: str, name: str, body: bytes) -> None:
        repo = self.emulator.repos[kind, name]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                assert value["encoding"] == "base64"
                repo[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repo[value["path"]] = self.emulator.large[value["oid"]]
        self._answer({"commitUrl": f"{self._url(kind, name)}/commit/1", "commitOid": "1" * 40})
