"""The system calls that a jailed program may make, as a kafel policy for nsjail: these, and no others.

A call that is not listed does not exist for a program (ENOSYS), so calls that future kernels add stay refused until
somebody has read what they do, and libc falls back to older ones. What is missing or restricted, and why:

- nothing may outlast the program: no attributes and flags of files, System V objects, keys, labels of network flows,
  and no descriptors sent over sockets, which the kernel keeps open for a while after all who had them have ended;
- nothing may tell what went before: no cookies of sockets, no names that the kernel makes up for them, by a count until
  Linux 5.16, no CPU clock of the zygote, no descriptors of processes, whose inodes number all processes of the host;
- time counts: no program may ignore the end of its processes (SIGCHLD), whose time the kernel then forgets;
- memory counts: no files in memory (memfd), which a process may hold without mapping them, no pages kept in pipes
  (vmsplice), of which each may keep a huge one, no larger buffers of sockets;
- nothing may reach the rest of the host: no locks, leases and watches on files that the jail shares with it, no signals
  that the kernel sends for a program, no amounts counted per user, no kernel modules loaded on demand;
- the kernel offers little to attack: no namespaces, tracing, io_uring, bpf, ...

The kernel reads only 32 bits of most arguments, so comparisons mask the others, which a program could set.
"""

from collections.abc import Iterable

# Calls by the names of the kernel's own functions: newstat is stat.
_FILES = """
    open, openat, creat, close, close_range, read, write, readv, writev, pread64, pwrite64, preadv, pwritev, lseek,
    dup, dup2, dup3, pipe, pipe2, newstat, newfstat, newlstat, newfstatat, statx, statfs, fstatfs, access,
    faccessat, faccessat2, readlink, readlinkat, getdents, getdents64, getcwd, chdir, fchdir, mkdir, mkdirat, rmdir,
    unlink, unlinkat, mknod, mknodat, rename, renameat, renameat2, link, linkat, symlink, symlinkat, truncate,
    ftruncate, fallocate, chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat, umask, utime, utimes, futimesat,
    utimensat, fsync, fdatasync, sendfile64, copy_file_range, splice, tee, getxattr, lgetxattr, fgetxattr,
    listxattr, llistxattr, flistxattr, poll, ppoll, select, pselect6, eventfd, eventfd2, signalfd, signalfd4,
    epoll_create, epoll_create1, epoll_ctl, epoll_wait, epoll_pwait, epoll_pwait2
"""
_MEMORY = """
    brk, mmap, munmap, mprotect, mremap, msync, mlock, mlock2, munlock, mlockall, munlockall
"""
_PROCESSES = """
    fork, vfork, execve, execveat, exit, exit_group, wait4, waitid, kill, tgkill, getpid, getppid, gettid, getpgid,
    getpgrp, setpgid, getsid, setsid, getuid, geteuid, getgid, getegid, getresuid, getresgid, getgroups, capget,
    capset, setuid, setgid, setreuid, setregid, setresuid, setresgid, setgroups, setfsuid, setfsgid,
    set_tid_address, set_robust_list, rseq, arch_prctl, futex, restart_syscall, getrlimit, setrlimit, getrusage,
    getpriority, newuname, sysinfo, getcpu, getrandom, sched_yield, sched_getaffinity, sched_getparam,
    sched_getscheduler, sched_getattr, sched_get_priority_min, sched_get_priority_max, sched_rr_get_interval
"""
_TIME_AND_SIGNALS = """
    time, gettimeofday, times, clock_getres, nanosleep, alarm, getitimer, setitimer, pause, timer_settime,
    timer_gettime, timer_getoverrun, timer_delete, timerfd_create, timerfd_settime, timerfd_gettime, rt_sigprocmask,
    rt_sigpending, rt_sigreturn, rt_sigsuspend, rt_sigtimedwait, sigaltstack
"""
_SOCKETS = """
    listen, accept, accept4, connect, shutdown, getsockname, getpeername, sendto, recvfrom, recvmsg, recvmmsg
"""


def _one_of(name: str, values: Iterable[int]) -> str:
    return "(" + " || ".join(f"({name} & 0xffffffff) == {value}" for value in values) + ")"


def _options(of_sockets: Iterable[int]) -> str:
    """Those of sockets of any kind, and the harmless ones of TCP and IPv6."""
    levels = ((_SOL_SOCKET, of_sockets), (_TCP, _OF_TCP), (_IPV6, _IPV6_ONLY))
    return " || ".join(f"{_one_of('level', (level,))} && {_one_of('name', names)}" for level, names in levels)


_SIGCHLD = 17
_NEW_NAMESPACES, _PIDFD = 0x7E020000, 0x1000  # every CLONE_NEW flag of clone; CLONE_PIDFD
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_OFD_GETLK, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_ADD_SEALS,
# F_GET_SEALS. Refused: F_SETOWN and F_SETSIG (signals to others), leases, watches of folders, hints that stay with a
# file, and larger pipes (counted per user).
_FCNTL = (0, 1, 2, 3, 4, 5, 36, 1030, 1032, 1033, 1034)
# TCGETS (isatty), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# signal at the parent's death (1, 2), dumpable (3, 4), name (15, 16), capabilities (23), no new privileges (38, 39)
_PRCTL = (1, 2, 3, 4, 15, 16, 23, 38, 39)
# MADV_MERGEABLE (pages shared with other processes) and the host's own aids: COLD, PAGEOUT, HWPOISON, SOFT_OFFLINE
_MADVISE_REFUSED = (12, 20, 21, 100, 101)
_UNIX, _INTERNET, _STREAM_OR_DATAGRAM, _PROTOCOLS = 1, (2, 10), (1, 2), (0, 6, 17)
_SOL_SOCKET, _TCP, _IPV6, _IPV6_ONLY = 1, 6, 41, (26,)
# Of SOL_SOCKET: REUSEADDR, BROADCAST, KEEPALIVE, LINGER, REUSEPORT, RCVTIMEO and SNDTIMEO (old and new)
_SETTABLE = (2, 6, 9, 13, 15, 20, 21, 66, 67)
_BUFFERS = (7, 8)  # SNDBUF, RCVBUF: they stay as they are
_READABLE = (*_SETTABLE, *_BUFFERS, 3, 4, 17, 30, 38, 39)  # TYPE, ERROR, PEERCRED, ACCEPTCONN, PROTOCOL, DOMAIN
_OF_TCP = (1, 4, 5, 6)  # NODELAY, KEEPIDLE, KEEPINTVL, KEEPCNT
# The clocks of process 1 and of its thread: its CPU time is that of all programs before.
_ZYGOTES_CLOCKS = range(0xFFFFFFF0, 0xFFFFFFF8)
_CLOCKED = ("clock_gettime", "clock_nanosleep", "timer_create")

_RESTRICTED = (
    f"clone(flags) {{ (flags & {_NEW_NAMESPACES | _PIDFD}) == 0 }}",
    f"fcntl(fd, command) {{ {_one_of('command', _FCNTL)} }}",
    f"ioctl(fd, request) {{ {_one_of('request', _IOCTL)} }}",
    f"prctl(option) {{ {_one_of('option', _PRCTL)} }}",
    f"madvise(address, length, advice) {{ !{_one_of('advice', _MADVISE_REFUSED)} }}",
    f"rt_sigaction(signal, action) {{ !{_one_of('signal', (_SIGCHLD,))} || action == 0 }}",
    f"prlimit64(pid) {{ {_one_of('pid', (0,))} }}",
    *(f"{name}(fd, parts, count, low, high, flags) {{ {_one_of('flags', (0,))} }}" for name in ("preadv2", "pwritev2")),
    f"socketpair(family) {{ {_one_of('family', (_UNIX,))} }}",
    "bind(fd, address, length) { (length & 0xffffffff) > 2 }",
    f"socket(family, kind, protocol) {{ {_one_of('family', (_UNIX,))} || {_one_of('family', _INTERNET)} && "
    f"{_one_of('(kind & 15)', _STREAM_OR_DATAGRAM)} && {_one_of('protocol', _PROTOCOLS)} }}",
    f"setsockopt(fd, level, name) {{ {_options(_SETTABLE)} }}",
    f"getsockopt(fd, level, name) {{ {_options(_READABLE)} }}",
    *(f"{name}(clock) {{ !{_one_of('clock', _ZYGOTES_CLOCKS)} }}" for name in _CLOCKED),
)

# Answered as if done. Locks and advice on files that all jails share would slow others down, or be seen by them; locks
# on a program's own files concern nobody else. A jail has no disk to flush.
_DO_NOTHING = (
    "flock",
    f"setsockopt(fd, level, name) {{ {_one_of('level', (_SOL_SOCKET,))} && {_one_of('name', _BUFFERS)} }}",
    f"fcntl(fd, command) {{ {_one_of('command', (6, 7, 37, 38))} }}",  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
    *("fadvise64", "readahead", "sync", "syncfs"),
)

# Programs know these calls, and handle the lack of permission (EPERM).
_FORBIDDEN = """
    setxattr, lsetxattr, fsetxattr, clone, prlimit64, unshare, mount, chroot, ptrace, setpriority, ioprio_set,
    sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr, sendmsg, sendmmsg, vmsplice, memfd_create,
    inotify_init, inotify_init1, shmget, msgget, semget, mq_open
"""

# How what is not allowed above fails: EPERM; EINVAL; ENOTTY; ENOPROTOOPT; EOPNOTSUPP; EAFNOSUPPORT.
_REFUSED = {
    1: _FORBIDDEN,
    22: ", ".join(("bind", "fcntl", "prctl", "madvise", "rt_sigaction", *_CLOCKED)),
    25: "ioctl",
    92: "setsockopt, getsockopt",
    95: "preadv2, pwritev2",
    97: "socket, socketpair",
}
_ALLOWED = ", ".join((_FILES, _MEMORY, _PROCESSES, _TIME_AND_SIGNALS, _SOCKETS, *_RESTRICTED))

POLICY = f"POLICY judge {{ ALLOW {{ {_ALLOWED} }}, ERRNO(0) {{ {', '.join(_DO_NOTHING)} }}"
POLICY += "".join(f", ERRNO({number}) {{ {calls} }}" for number, calls in _REFUSED.items())
POLICY += " } USE judge DEFAULT ERRNO(38)"
