"""What one program leaves, no later one finds; what one program holds, no other and nobody else of the host meets."""

import os
import struct
import time
from pathlib import Path

import pytest

from sandbox import Job, Limits, SandboxPool
from sandbox.host.protocol import Report

# Each leaves something where it can, and looks for what an earlier program left: (statements, expression).
START = """
import ctypes, fcntl, os, resource, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    return libc.syscall(number, *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments])
def read(number, size, *arguments):
    place = ctypes.create_string_buffer(size)
    return [call(number, *[place if a is Ellipsis else a for a in arguments]), place.raw]
folder = os.open('/tmp', 0)
def attribute(): return read(191, 8, b'/tmp', b'user.mark', ..., 8)
def flags(): return read(332, 256, folder, b'', 0x1000, 0xfff, ...)[1][8:16]
def hint(fd): return read(72, 8, fd, 1035, ...)
def set_hint(fd): return call(72, fd, 1036, struct.pack('Q', 4))
"""
LEFT = {
    "flags of standard output": ("fcntl.fcntl(1, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)", "fcntl.fcntl(1, 3)"),
    "flags of standard input": ("fcntl.fcntl(0, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)", "fcntl.fcntl(0, 3)"),
    "the owner of standard output": ("fcntl.fcntl(1, fcntl.F_SETOWN, 1)", "fcntl.fcntl(1, 9)"),
    "the signal of standard error": ("fcntl.fcntl(2, fcntl.F_SETSIG, 40)", "fcntl.fcntl(2, 11)"),
    "times of standard output": ("os.utime(1)", "os.fstat(1).st_mtime_ns"),
    "times of standard output by path": ("os.utime('/dev/null')", "os.fstat(1).st_mtime_ns"),
    "a hint at standard output": ("set_hint(1)", "hint(1)"),
    "an attribute of the folder": ("call(188, b'/tmp', b'user.mark', b'1', 1, 0)", "attribute()"),
    "an attribute by setxattrat": (
        "call(463, folder, b'', 0x1000, b'user.mark', struct.pack('QII', id(b'1') + 32, 1, 0), 16)",
        "attribute()",
    ),
    "an attribute by its descriptor": ("call(190, folder, b'user.mark', b'1', 1, 0)", "attribute()"),
    "flags by file_setattr": ("call(469, folder, b'', struct.pack('Q4I', 0x80, 0, 0, 0, 0), 24, 0x1000)", "flags()"),
    "flags by ioctl": ("call(16, folder, 0x40086602, struct.pack('Q', 0x40))", "flags()"),
    "flags by ioctl with a bit above the 32nd": ("call(16, folder, 0x140086602, struct.pack('Q', 0x40))", "flags()"),
    "more flags by ioctl with all bits above": (
        "call(16, folder, 0xffffffff401c5820, struct.pack('5I8x', 0x80, 0, 0, 0, 0))",
        "flags()",
    ),
    "a project by ioctl": ("call(16, folder, 0xf401c5820, struct.pack('5I8x', 0, 0, 0, 7, 0))", "flags()"),
    "a hint at the folder": ("set_hint(folder)", "hint(folder)"),
    "rights of the folder": ("os.chmod('/tmp', 0o1755)", "os.stat('/tmp').st_mode"),
    "a limit": ("resource.setrlimit(resource.RLIMIT_STACK, (4096, 4096))", "resource.getrlimit(resource.RLIMIT_STACK)"),
    "an ignored signal": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal.getsignal(signal.SIGUSR1) == 0"),
    "a queue": ("call(68, 4711, 0o1666)", "call(68, 4711, 0o666)"),
    "a key": ("call(248, b'user', b'mark', b'1', 1, -3)", "call(249, b'user', b'mark', 0, -3)"),
    "a name of the host": ("socket.sethostname('mark')", "socket.gethostname()"),
    "a socket without a path": ("socket.socket(1).bind('\\0mark'); os.fork() or signal.pause()", "bound()"),
    "a socket without a path in flight": ("s = socket.socket(1); s.bind('\\0mark'); in_flight(s)", "bound()"),
    "half of a pair in flight": ("a, b = socket.socketpair(); a.bind('\\0mark'); in_flight(b)", "bound()"),
    "processes": ("[ended() for _ in range(5)]", "[os.getpid(), ended(), ended()]"),
    "one process": ("os.posix_spawn('/usr/bin/env', ['env', 'true'], {})", "ended()"),
    "threads": ("[run_thread() for _ in range(9)]", "[threading.get_native_id(), run_thread()]"),
    "a family": ("os.fork() and os.fork() and os.fork(); signal.pause()", "[os.getpid(), ended()]"),
    "processes and files": ("[open(str(ended()), 'w') for _ in range(3)]", "ended()"),
    "CPU time of the zygote": ("os.listdir('/tmp')", "of_zygote()"),
    "the count of sockets": ("[socket.socket(1) for _ in range(9)]", "[option(1, 57), option(1, 71)]"),
    "the count of sockets that are given names": ("[socket.socket(1).bind('') for _ in range(9)]", "given_name()"),
    "the count of sockets of the network": ("[socket.socket(2) for _ in range(9)]", "option(2, 57)"),
    "the count of all processes": ("[ended() for _ in range(5)]", "[call(56, 0x1011, 0, ..., 0, 0), option(1, 77)]"),
    "a key of the network": ("s = socket.socket(); s.setsockopt(6, 23, 5); s.listen()", "option(2, 33, 6)"),
}
LOOKS = """
def bound():
    try: socket.socket(1).bind('\\0mark')
    except OSError as error: return error.errno
def given_name():
    unnamed = socket.socket(1)
    try: return unnamed.bind('') or unnamed.getsockname()
    except OSError as error: return error.errno
def in_flight(held):
    a, b = socket.socketpair()
    socket.send_fds(a, [b'1'], [held.fileno(), a.fileno(), b.fileno()])
def ended():
    pid = os.fork()
    return pid and os.waitpid(pid, 0)[0] or os._exit(0)
def run_thread():
    thread = threading.Thread(target=int)
    thread.start()
    return thread.native_id
def of_zygote():
    numbers = []
    for clock in [*range(-16, -8), (1 << 32) - 14, -14 & (1 << 64) - 1 ^ 1 << 40]:
        numbers += [read(228, 16, clock, ...), read(222, 8, clock, 0, ...)[0]]
    return numbers
def option(family, name, level=1):
    size = struct.pack('I', 8)
    return read(55, 8, socket.socket(family).fileno(), level, name, ..., size)
"""


def program(statements: str, expression: str) -> str:
    attempt = f"try: {statements}\nexcept (OSError, AttributeError, ValueError): pass\n"
    return f"{START}{LOOKS}def leave():\n{indented(attempt)}\ndef look():\n    return {expression}\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("name", LEFT)
def test_nothing_that_a_program_leaves_is_found_by_the_next(jail: SandboxPool, name: str):
    text = program(*LEFT[name])

    def looks() -> set:
        return {e.outcomes[0] for e in jail.execute([Job(text, ("look()",))] * 4)}

    before = looks()
    assert len(before) == 1, before
    jail.execute([Job(text, ("leave()",))] * 4)
    assert looks() == before
    assert jail.restarts == 0


SHARED = "/usr/bin/env"  # a file of the host that every jail sees
HELD = {
    "standard output": "fcntl.flock(1, fcntl.LOCK_EX)",
    "standard input and error": "fcntl.flock(0, fcntl.LOCK_SH); fcntl.flock(2, fcntl.LOCK_EX)",
    "ranges of standard output": "[fcntl.lockf(1, fcntl.LOCK_EX, 1, 2 * n) for n in range(27_000)]",
    "ranges of the null device": "fd = os.open('/dev/null', 2); [fcntl.lockf(fd, 2, 1, 2 * n) for n in range(3000)]",
    "a file of the host": "fcntl.flock(fd, fcntl.LOCK_EX)",
    "ranges of a file of the host": "[fcntl.lockf(fd, fcntl.LOCK_SH, 1, 2 * n) for n in range(3000)]",
    "a file of the host for a descriptor": "fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', 0, 0, 0, 0, 0))",
    "a lease of its own file": "fcntl.fcntl(os.open('own', 66), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
}


def locks() -> int:
    """How many locks and leases anybody on this host holds on what the jails share with it, or on the lease's file."""
    shared = {f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}" for info in map(os.stat, ON)}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(fields[1] == "LEASE" or fields[5] in shared for fields in lines if fields[1] != "->")


ON = (SHARED, os.devnull)


@pytest.mark.parametrize("name", HELD)
def test_a_program_holds_no_lock_that_anybody_else_would_meet(jail: SandboxPool, name: str):
    hold = f"import fcntl, os, struct, time\ndef f():\n    fd = os.open({SHARED!r}, 0)\n    try: {HELD[name]}\n"
    hold += "    except OSError: pass\n    time.sleep(0.3)\n"
    before, future = locks(), jail.submit(Job(hold, ("f()",), Limits(call_seconds=1)))
    during = []
    while not future.done():
        during.append(locks())
        time.sleep(0.02)
    assert future.result().outcomes[0].value == "None"
    assert set(during) == {before}


def test_advisory_locks_of_a_program_on_its_own_files_succeed(jail: SandboxPool):
    program = """
import fcntl, mailbox, sqlite3
def f():
    with open('own', 'w') as file: fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)
    for write in range(3):
        with sqlite3.connect('own.db') as base:
            base.execute('create table if not exists t(x)'); base.execute('insert into t values (?)', [write])
    return sqlite3.connect('own.db').execute('select x from t').fetchall()
"""
    (execution,) = jail.execute([Job(program, ("f()",))])
    assert execution.outcomes[0].value == "[(0,), (1,), (2,)]"


# Reads all memory of its process: what lies around whatever it finds an address of.
SEARCH = """
import ctypes, gc, os, sys
def pages():
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    reader, writer = os.pipe()
    def readable(page):
        return libc.write(writer, ctypes.c_void_p(page << 12), 1) == 1 and os.read(reader, 1)
    stack = ctypes.c_void_p.in_dll(libc, 'environ').value
    starts = {id(thing) >> 12 for thing in gc.get_objects()}
    starts |= {libc.sbrk(0) - 1 >> 12, stack >> 12, id(object()) >> 12, id(1.5 ** 7) >> 12}
    found = set()
    for start in starts - {0}:
        for step in (1, -1):
            page = start if step == 1 else start - 1
            while page not in found and readable(page):
                found.add(page)
                page += step
    return [ctypes.string_at(page << 12, 4096) for page in found]
def search(masked):
    memory = b''.join(pages())
    wanted = [bytes(byte ^ 255 for byte in number) for number in masked]
    return [len(memory) > 4_000_000] + [memory.count(number) for number in wanted]
"""
WORK = "import time\ndef f():\n    end = time.process_time() + 0.12\n    while time.process_time() < end: pass\n"


@pytest.fixture
def started(monkeypatch) -> list[Report]:
    """The reports on all processes that are started for jobs."""
    reports: list[Report] = []
    unpack = Report.unpack
    monkeypatch.setattr(Report, "unpack", lambda data: reports.append(unpack(data)) or reports[-1])
    return reports


def test_no_program_reads_in_its_memory_what_was_granted_or_reported_of_the_last(started):
    search = Limits(call_seconds=8, load_seconds=9, program_seconds=30, memory_mb=1024)
    with SandboxPool(workers=1, backend="nsjail", limits=search) as pool:
        for turn in range(3):
            granted = (1.7320508 + turn, 2.6457513 + turn, 19.87654321, 4.1231056 + turn)
            limits = Limits(*granted)
            pool.execute([Job(WORK, ("f()",), limits)])
            numbers = (*granted, started[-1].cpu_seconds, started[-1].wall_seconds)
            masked = [bytes(byte ^ 255 for byte in struct.pack("d", number)) for number in numbers]
            (execution,) = pool.execute([Job(SEARCH, (f"search({masked!r})",))])
            assert execution.outcomes[0].value == "[1, 0, 0, 0, 0, 0, 0]", execution


CHOSEN = 1_234_567_890, 987_654_321  # seconds and nanoseconds
LEAVE = """
import os, stat, time
def f(text, seconds):
    for n in range(500 if seconds else 0): open(f'{n}{text * 14}', 'w').close()
    os.utime('/tmp', ns=(NS, NS))
    for fd in range(3, 16):
        try: stat.S_ISREG(os.fstat(fd).st_mode) and os.utime(fd, ns=(NS, NS))
        except OSError: pass
    end = time.process_time() + seconds
    while time.process_time() < end: pass
    return text * 100
"""


def test_no_program_reads_in_its_memory_what_the_last_one_answered_or_named():
    """The zygote, of which each is a fork, must not have seen any of it."""
    seconds, nanoseconds = CHOSEN
    number = seconds * 10**9 + nanoseconds
    as_python_keeps_it = struct.pack("3I", number & (1 << 30) - 1, number >> 30 & (1 << 30) - 1, number >> 60)
    as_c_keeps_it = struct.pack("2q", seconds, nanoseconds)
    secrets = (b"whisper-4711-4712", as_python_keeps_it, as_c_keeps_it, struct.pack("d", number / 1e9))
    masked = [bytes(byte ^ 255 for byte in secret) for secret in secrets]
    limits = Limits(call_seconds=8, load_seconds=9, program_seconds=30, memory_mb=1024)
    text = secrets[0].decode()
    calls = (*[f"f({text!r}, 0)"] * 60, f"f({text!r}, 0.2)")
    with SandboxPool(workers=1, backend="nsjail", limits=limits) as pool:
        left, *searched = pool.execute(
            [
                Job(LEAVE.replace("NS", str(number)), calls, together=True),
                *[Job(SEARCH, (f"search({masked!r})",)) for _ in range(2)],
            ]
        )
    assert [outcome.value for outcome in left.outcomes] == [f'"{text * 100}"'] * 61
    for execution in searched:
        assert execution.outcomes[0].value == "[1, 0, 0, 0, 0]", execution


@pytest.mark.parametrize("chance", ["os.getpid() & 1", "os.urandom(1)[0] & 1", "time.perf_counter_ns() & 1", "True"])
def test_a_program_that_kills_itself_now_and_then_does_not_double_its_processes(jail: SandboxPool, started, chance):
    program = f"import os, time\nseen = []\ndef f(x):\n    seen.append(x)\n    {chance} and os.kill(os.getpid(), 9)\n"
    (execution,) = jail.execute([Job(program, tuple(f"f({x})" for x in range(60)))])
    assert len(execution.outcomes) == 60
    assert len(started) <= 60 + 8


def test_what_a_loading_sleeps_is_granted_once_and_not_for_every_call(jail: SandboxPool, started):
    program = "import time\ntime.sleep(0.4)\nseen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n"
    limits = Limits(load_seconds=0.4, wall_factor=2.5)
    (execution,) = jail.execute([Job(program, tuple(f"f({x})" for x in range(30)), limits)])
    ends = [outcome.status.value for outcome in execution.outcomes]
    assert (ends[0], ends[-1]) == ("returned", "timed out")
    assert len(started) <= 5  # in one second
