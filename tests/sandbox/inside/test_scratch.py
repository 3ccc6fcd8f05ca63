import pytest

from sandbox import Job, Limits, SandboxPool, Status

LOOK = """
import os
def f():
    info, room = os.stat('/tmp'), os.statvfs('/tmp')
    return [os.listdir('/tmp'), info.st_mode & 0o777, info.st_mtime, room.f_files - room.f_ffree]
"""
LEAVES = {
    "a file": "open('/tmp/a', 'w').write('x')",
    "a file where it starts": "open('a', 'w').write('x')",
    "deep folders": "[(os.mkdir('d'), os.chdir('d')) for _ in range(400)]",
    "deep folders without rights": """
for name in ('d', 'e'):
    os.chdir('/tmp')
    for _ in range(90):
        os.mkdir(name); os.mkdir('1'); os.chdir(name)
    for _ in range(90):
        os.chdir('..')
        os.chmod(name, 0); os.chmod('1', 0)
""",
    "many files": "[open(str(n), 'w').close() for n in range(500)]",
    "strange names": "[open(name, 'w').close() for name in (b'\\xff\\xfe', b'a\\nb', b' ', b'-rf', b'x' * 255)]",
    "links": "os.symlink('/usr', 'a'); os.symlink('a', 'b'); os.mkdir('c'); os.symlink('..', 'c/d'); os.mkfifo('e')",
    "a socket": "import socket; socket.socket(socket.AF_UNIX).bind('s')",
    "no rights to the folder itself": "open('a', 'w').close(); os.chmod('/tmp', 0)",
    "times of the folder": "os.utime('/tmp', (4711, 4711))",
    "a full folder": "[open(str(n), 'wb').write(bytes(1 << 19)) for n in range(40)]",
    "a process that writes on": """
if os.fork() == 0:
    while True: open(str(os.times().elapsed), 'w').close()
""",
}


@pytest.mark.parametrize("name", LEAVES)
def test_the_scratch_folder_is_empty_for_each_program(jail: SandboxPool, name):
    leave = (
        "import os\ntry:\n" + "".join(f"    {line}\n" for line in LEAVES[name].splitlines()) + "except OSError: pass\n"
    )
    for execution in jail.execute([Job(leave, ("f()",))] * 4):
        assert execution.outcomes[0].status is Status.RAISED
    for execution in jail.execute([Job(LOOK, ("f()",))] * 8):
        assert execution.outcomes[0].value == "[[], 448, 0, 1]"
    assert jail.restarts == 0


@pytest.mark.parametrize(
    "attempt",
    [
        "os.setxattr('/tmp', 'user.mark', b'1')",
        "os.setxattr('/tmp', 'system.posix_acl_access', b'\\x02\\x00\\x00\\x00')",
        "fcntl.ioctl(os.open('/tmp', 0), 0x40086602, (64).to_bytes(8, 'little'))",
        "os.rmdir('/tmp')",
        "os.rename('/tmp', '/other')",
        "os.mkdir('/other')",
        "open('big', 'wb').write(bytes(1 << 21)) and open('big', 'ab').write(bytes(1 << 21))",
    ],
)
def test_nothing_else_can_be_written(jail: SandboxPool, attempt):
    program = (
        f"import fcntl, os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\ndef f():\n    return {attempt}\n"
    )
    (execution,) = jail.execute([Job(program, ("f()",), Limits(file_bytes=1 << 20))])
    assert execution.outcomes[0].status is Status.RAISED, execution
    assert "Error" in execution.outcomes[0].detail


def test_a_program_finds_its_own_files_again(jail: SandboxPool):
    program = """
import os, tempfile
def f(x):
    with open('notes.txt', 'a') as file: file.write(x)
    with tempfile.TemporaryDirectory() as folder: open(folder + '/a', 'w').write(x)
    return open(os.path.expanduser('~/notes.txt')).read()
"""
    (execution,) = jail.execute([Job(program, ("f('a')", "f('b')"), together=True)])
    assert [outcome.value for outcome in execution.outcomes] == ['"a"', '"ab"']
