"""What emulators of services on this machine share: a server that hands its requests to one of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(emulator: object, handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port at which handlers answer, each with `emulator` as an attribute."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"emulator": emulator}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
