"""The replicas of a service: where they are, how busy each is, and the connections to them.

A name that resolves to several addresses, as that of a headless Service does, stands for a replica at each. One that
fails rests, longer each time, and is then tried by one job at a time until it answers, if others work.
"""

import base64
import http.client
import itertools
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import SplitResult, unquote, urlsplit

from sandbox.jobs import SandboxUnavailable

STALL_SECONDS = 5.0  # a replica from which not even a sign of life comes within them hangs
_SEND_SECONDS = 60.0  # for the whole of a request: as long as a service waits for one
_FIND_SECONDS = 5.0  # between looks at what names resolve to
_REST_SECONDS = 0.2  # after a failure; doubled with each
_MOST_REST_SECONDS = 60.0
_SHORT_REST_SECONDS = 1.6  # at most, while no other works
_MOST_BYTES = 1 << 30  # of an answer

FAILURES = (OSError, http.client.HTTPException)
"""What a replica that fails raises."""


class Replica:
    """One process that serves. `jobs` counts those of this client that wait for its answer."""

    def __init__(self, url: SplitResult, host: str, headers: dict[str, str]) -> None:
        self._kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._path = host, url.port, url.path.rstrip("/")
        self._headers = {**headers, "Host": url.netloc.rpartition("@")[2]}
        if url.password is not None and "Authorization" not in headers:
            user = f"{unquote(url.username or '')}:{unquote(url.password)}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{url.scheme}://{shown}{f':{url.port}' if url.port else ''}{self._path}"
        self.jobs = 0
        self._failures = 0
        self._failed_at = 0.0
        self._idle: list[http.client.HTTPConnection] = []

    @property
    def is_failing(self) -> bool:
        """Whether the last that was seen of it is a failure."""
        return self._failures > 0

    def rests(self, most: float) -> bool:
        """Whether it has failed, and not been left alone for long enough, or `most` seconds."""
        rest = min(most, _REST_SECONDS * 2 ** min(self._failures - 1, 10))
        return self.is_failing and time.monotonic() < self._failed_at + rest

    def has_failed_for(self, seconds: float) -> bool:
        """Whether it has answered nothing for so long after a failure."""
        return self.is_failing and time.monotonic() >= self._failed_at + seconds

    def failed(self) -> None:
        """It did not answer, or with something else than a result. Jobs that fail together are one failure."""
        if not self.rests(_REST_SECONDS):
            self._failed_at = time.monotonic()
            self._failures += 1

    def answered(self) -> None:
        """It answered as it should."""
        self._failures = 0

    def send(self, path: str, body: bytes | None = None) -> "Exchange":
        """Post a body, or ask for the path. Raises one of FAILURES."""
        connection = self._connection()
        try:
            if connection.sock is None:
                connection.connect()
            line: socket.socket = connection.sock  # pyright: ignore[reportAssignmentType]
            line.settimeout(_SEND_SECONDS)
            connection.request("GET" if body is None else "POST", self._path + path, body, self._headers)
            line.settimeout(STALL_SECONDS)
        except BaseException:
            connection.close()
            raise
        return Exchange(self, connection)

    def get(self, path: str) -> bytes:
        """What it answers, whatever the status. Raises one of FAILURES."""
        return self.send(path).answer()[1]

    def is_alive(self) -> bool:
        """Whether it answers at all."""
        try:
            self.get("/health")
        except FAILURES:
            return False
        return True

    def _connection(self) -> http.client.HTTPConnection:
        """One that the service has not closed meanwhile, or another."""
        while (connection := self._take()) is not None:
            if not wait_for([connection.sock], 0.0):
                return connection
            connection.close()
        return self._kind(self._host, self._port, timeout=STALL_SECONDS)

    def _take(self) -> http.client.HTTPConnection | None:
        """An idle one. Another thread may take the last between a look and a pop, so nobody looks first."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """For the next request."""
        self._idle.append(connection)

    def close(self) -> None:
        """Hang up."""
        while (connection := self._take()) is not None:
            connection.close()


class Exchange:
    """A request that was sent, and its answer that may come."""

    def __init__(self, replica: Replica, connection: http.client.HTTPConnection) -> None:
        self.replica = replica
        self._connection = connection

    def fileno(self) -> int:
        """A descriptor that can be read once the answer comes."""
        return self._connection.sock.fileno()

    def answer(self) -> tuple[int, bytes]:
        """The status and the whole body. Raises one of FAILURES, for half an answer as well."""
        until, body = time.monotonic() + _SEND_SECONDS, bytearray()
        try:
            response = self._connection.getresponse()
            while part := response.read1(1 << 16):
                body += part
                if len(body) > _MOST_BYTES or time.monotonic() > until:
                    raise http.client.HTTPException("the answer does not end")
            if response.length:
                raise http.client.IncompleteRead(bytes(body), response.length)
            response.close()  # of the answer, not of the connection
        except BaseException:
            self.close()
            raise
        if response.will_close:
            self.close()
        else:
            self.replica.keep(self._connection)
        return response.status, bytes(body)

    def close(self) -> None:
        """Hang up: a service does not begin a job whose client has gone."""
        self._connection.close()


def wait_for(sources: Iterable[Exchange | socket.socket], seconds: float) -> list[int]:
    """The descriptors of those from which something comes, or that are closed, within that time."""
    poll = select.poll()
    for each in sources:
        poll.register(each.fileno(), select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1e3)]


class Replicas:
    """All replicas at some addresses (``http://host:port``). Raises SandboxUnavailable for what is not an address."""

    def __init__(self, addresses: Sequence[str], headers: dict[str, str]) -> None:
        self._urls = [_split(address) for address in addresses]
        self._headers = headers
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Replica] = {}  # by address and host
        self._turns = itertools.count()
        self._look_at = 0.0
        self._find()

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def work(self) -> bool:
        """Whether any works."""
        return not all(each.is_failing for each in self)

    def choose(self, without: Iterable[Replica] = ()) -> Replica | None:
        """The one at which the fewest jobs of this client wait, with one more; None while all rest."""
        self._find()
        with self._lock:
            most = _MOST_REST_SECONDS if self.work else _SHORT_REST_SECONDS
            able = [each for each in self if each not in without and not each.rests(most)]
            if self.work:
                able = [each for each in able if not (each.is_failing and each.jobs)]
            if not able:
                return None
            turn = next(self._turns)
            fewest = min(each.jobs for each in able)
            equal = [each for each in able if each.jobs == fewest]
            chosen = equal[turn % len(equal)]
            chosen.jobs += 1
            return chosen

    def release(self, replica: Replica) -> None:
        """A job does not wait for it any more."""
        with self._lock:
            replica.jobs -= 1

    def close(self) -> None:
        """Hang up."""
        for each in self:
            each.close()

    def _find(self) -> None:
        """Look up names, now and then. One that cannot be looked up keeps its replicas."""
        with self._lock:
            if time.monotonic() < self._look_at:
                return
            self._look_at = time.monotonic() + _FIND_SECONDS
        found: dict[tuple[str, str], Replica] = {}
        for url in self._urls:
            try:
                hosts = _hosts(url)
            except OSError:
                hosts = [host for address, host in self._found if address == url.geturl()]
            for key in ((url.geturl(), host) for host in hosts):
                found[key] = self._found.get(key) or Replica(url, key[1], self._headers)
        self._found, before = found, self._found
        for key in before.keys() - found.keys():
            before[key].close()


def _split(address: str) -> SplitResult:
    url = urlsplit(address)
    try:
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise SandboxUnavailable(f"{address} is not the address of a judge: write http://host:port")


def _hosts(url: SplitResult) -> list[str]:
    """Where a name leads; with TLS the name itself, which the certificate holds. Raises OSError."""
    assert url.hostname is not None
    if url.scheme == "https":
        return [url.hostname]
    found = socket.getaddrinfo(url.hostname, url.port or 80, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
