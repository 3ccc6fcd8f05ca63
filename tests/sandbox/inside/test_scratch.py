from pathlib import Path

import pytest
import yaml

from sandbox import Job, Limits, SandboxPool, Status

LOOK = """
import os
def f():
    info, room = os.stat('/tmp'), os.statvfs('/tmp')
    return [os.listdir('/tmp'), info.st_mode & 0o777, info.st_mtime, room.f_files - room.f_ffree]
"""
LEAVES = yaml.safe_load(Path(__file__).with_name("leaves.yaml").read_text())


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
