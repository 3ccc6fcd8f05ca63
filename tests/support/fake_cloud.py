"""A cloud that is not there: gcloud, git and codea1 on PATH, which record how they are called, and fail,
dawdle or report a preemption as a test says.

The programs are a few lines of shell that ask this process what to answer: Python is slow to start.
"""

import contextlib
import io
import json
import os
import signal
import socketserver
import subprocess
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launch.cli import main

ROOT = Path(__file__).parents[2]

_PROGRAM = r"""#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/PORT
printf '%s\0' "$(($# + 1))" "$PPID" "$PWD" "${0##*/}" "$@" >&3
for part in code out err; do IFS= read -r -d '' "$part" <&3; done
printf '%s' "$out"
printf '%s' "$err" >&2
exit "$code"
"""

Said = tuple[int, str, str]  # exit code, standard output, standard error


@dataclass(frozen=True)
class Caller:
    """Who called a program: its process, and where it was."""

    process: int
    directory: Path


@dataclass
class Script:
    """What shall happen. Texts are parts of a call; what is said of them holds for the first that many such calls."""

    failures: dict[str, tuple[int, str, int]] = field(default_factory=dict)  # how often, reason, exit code
    preemptions: dict[str, int] = field(default_factory=dict)  # how often
    interrupts: tuple[str, ...] = ()  # the call is answered after the launcher got SIGTERM, once
    slow: dict[str, float] = field(default_factory=dict)  # seconds, always
    states: Sequence[str] = ("ACTIVE",)  # of a queued resource, look by look, from its creation on
    endings: Sequence[Sequence[str]] = (("exit 0",),)  # of training, look by look: what each worker says


class Cloud:
    """The programs, in `directory`/bin, and what they have been told. A context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bin = directory / "bin"
        self.script = Script()
        self.workers: list[Path] = []  # homes of workers that really do what they are told
        self.environments: list[dict[str, str]] = []  # of these
        self.calls: list[list[str]] = []
        self.queue: list[str] = []  # states of the queued resource to come; the last one stays
        self._seen: Counter[str] = Counter()
        self._server = _Server(self)
        self.bin.mkdir()
        for name in _PROGRAMS:
            (self.bin / name).write_text(_PROGRAM.replace("PORT", str(self._server.port)))
            (self.bin / name).chmod(0o755)

    def __enter__(self) -> "Cloud":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def launch(self, *arguments: str) -> int:
        """Performs a step in this process; returns its exit code."""
        return main(arguments)

    @property
    def verbs(self) -> list[str]:
        """The calls that change something or concern workers, in order, in a word or two."""
        return [verb for call in self.calls if (verb := _verb(call))]

    def bucket(self, url: str) -> Path:
        """Where a gs:// address lies here."""
        return self.directory / "buckets" / url.removeprefix("gs://")

    # --- answering ------------------------------------------------------------------------------------

    def answer(self, caller: Caller, call: list[str]) -> Said:
        self.calls.append(call)
        line = " ".join(call)
        time.sleep(next((seconds for text, seconds in self.script.slow.items() if text in line), 0))
        for text in self.script.interrupts:
            if text in line and self._is_due(f"interrupt {text}", 1):
                said = _PROGRAMS[call[0]](self, call[1:], caller)
                os.kill(caller.process, signal.SIGTERM)
                time.sleep(0.5)
                return said
        for text, times in self.script.preemptions.items():
            if text in line and self._is_due(f"preemption {text}", times):
                self.queue = ["SUSPENDING", "SUSPENDED"]
                return _failure("client_loop: send disconnect: Broken pipe", 255)
        for text, (times, reason, code) in self.script.failures.items():
            if text in line and self._is_due(f"failure {text}", times):
                return _failure(reason, code)
        return _PROGRAMS[call[0]](self, call[1:], caller)

    def on(self, index: int, command: str) -> Said:
        """Runs a command in a worker's home."""
        home = self.workers[index]
        environment = {**os.environ, "HOME": str(home), "CODEA1_ROOT": str(home / "root"), **self.environments[index]}
        done = subprocess.run(
            ["bash", "-c", command], cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def _is_due(self, what: str, times: int) -> bool:
        self._seen[what] += 1
        return self._seen[what] <= times

    def gcloud(self, words: list[str], caller: Caller) -> Said:
        line = " ".join(words)
        answers: dict[str, Callable[[list[str], Caller], Said]] = {
            "compute tpus queued-resources describe": self._describe,
            "compute tpus queued-resources create": self._create,
            "compute tpus queued-resources delete": self._delete,
            "compute tpus queued-resources ssh": self._ssh,
            "compute tpus queued-resources scp": self._scp,
            "storage cp": lambda *_: _DONE,
            "storage rsync": self._rsync,
        }
        for prefix, answer in answers.items():
            if line.startswith(prefix):
                return answer(words, caller)
        return _failure(f"Invalid choice: {line}", 2)

    def _describe(self, words: list[str], caller: Caller) -> Said:
        if not self.queue:
            return _failure("NOT_FOUND: Resource was not found")
        return 0, json.dumps({"state": {"state": _next(self.queue)}}), ""

    def _create(self, words: list[str], caller: Caller) -> Said:
        if self.queue:
            return _failure("ALREADY_EXISTS")
        self.queue = list(self.script.states)
        return _DONE

    def _delete(self, words: list[str], caller: Caller) -> Said:
        if not self.queue:
            return _failure("NOT_FOUND: Resource was not found")
        self.queue = []
        return _DONE

    def _ssh(self, words: list[str], caller: Caller) -> Said:
        if self.queue != ["ACTIVE"]:
            return _failure("the TPU is not in state ACTIVE")
        flags = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
        if flags["--command"] == "bash worker.sh status":
            endings = self.script.endings
            ending = endings[min(self._seen["endings"], len(endings) - 1)]
            self._seen["endings"] += 1
            return 0, "".join(f"training: {each}\n" for each in ending), ""
        return _DONE

    def _scp(self, words: list[str], caller: Caller) -> Said:
        if self.queue != ["ACTIVE"]:
            return _failure("the TPU is not in state ACTIVE")
        return _DONE

    def _rsync(self, words: list[str], caller: Caller) -> Said:
        source, target = (
            self.bucket(word) if word.startswith("gs://") else caller.directory / word for word in words[-2:]
        )
        target.mkdir(parents=True, exist_ok=True)
        return (0, "", "") if not source.exists() else _run("cp", "-r", f"{source}/.", str(target))

    def git(self, words: list[str], caller: Caller) -> Said:
        if words[0] == "archive":
            with io.BytesIO() as content:
                tarfile.open(fileobj=content, mode="w:gz").close()
                output = next(word.split("=")[1] for word in words if "--output=" in word)
                (caller.directory / output).write_bytes(content.getvalue())
        return _DONE


_DONE: Said = (0, "", "")

_PROGRAMS: dict[str, Callable[[Cloud, list[str], Caller], Said]] = {
    "gcloud": Cloud.gcloud,
    "git": Cloud.git,
    "codea1": lambda *_: _DONE,
}


def _failure(reason: str, code: int = 1) -> Said:
    return code, "", f"ERROR: {reason}\n"


def _next(states: list[str]) -> str:
    return states.pop(0) if len(states) > 1 else states[0]


def _run(*words: str) -> Said:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def _verb(call: list[str]) -> str | None:
    line = " ".join(call)
    if line.startswith("gcloud compute tpus queued-resources"):
        command = next((word for word in call if word.startswith("--command=")), None)
        verb = call[4] if command is None else command.removeprefix("--command=bash worker.sh ").split()[0]
        return None if verb == "describe" else verb
    if line.startswith("gcloud storage rsync"):
        if call[-2].startswith("gs://"):
            return "copy"
        return "upload" if call[-1].endswith("/run") else None  # of data
    return None


class _Server(socketserver.ThreadingTCPServer):
    """What the programs ask. Workers that train ask at the same time."""

    daemon_threads = True

    def __init__(self, cloud: Cloud) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                read = _nul_terminated(self.rfile)
                count = int(next(read))
                caller = Caller(int(next(read)), Path(next(read)))
                said = cloud.answer(caller, [next(read) for _ in range(count)])
                with contextlib.suppress(OSError):  # whoever asked was given up
                    self.wfile.write("".join(f"{part}\0" for part in said).encode())

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


def _nul_terminated(stream):
    while True:
        part = bytearray()
        while (byte := stream.read(1)) not in (b"\0", b""):
            part += byte
        yield part.decode()
