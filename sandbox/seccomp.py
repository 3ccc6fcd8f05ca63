"""The system calls that a jailed program is refused, as a kafel policy for nsjail."""

_REFUSED = (
    # touching other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "prlimit64(pid) { pid != 0 }"),
    *("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority", "ioprio_set"),
    *("migrate_pages", "move_pages"),
    # objects that outlive the process: System V and POSIX queues, keys
    *("shmget", "msgget", "semget", "mq_open", "keyctl", "add_key", "request_key"),
    # attributes of files and folders: those of the scratch folder itself would outlive the program
    *("setxattr", "lsetxattr", "fsetxattr", "ioctl(fd, request) { request == 0x40086602 || request == 0x401c5820 }"),
    # new namespaces and mounts; the mask holds every CLONE_NEW flag
    *(
        "clone(flags) { (flags & 0x7e020000) != 0 }",
        "unshare",
        "setns",
        "mount",
        "umount",
        "pivot_root",
        "chroot",
    ),
    # counted per user of the host, whose own share they would use up
    *("inotify_init", "inotify_init1"),
    # surface of the kernel that no test needs
    *("perf_event_open", "bpf", "userfaultfd", "personality", "syslog", "lookup_dcookie", "nfsservctl"),
    *("name_to_handle_at", "open_by_handle_at", "fanotify_init", "quotactl", "acct", "vhangup", "reboot"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "swapon", "swapoff"),
    *("settimeofday", "clock_settime", "adjtimex"),
)

# Said not to exist (ENOSYS): clone3, whose flags a filter cannot read, so that libc falls back to clone;
# asynchronous I/O and io_uring (425 to 427); pidfd_open, pidfd_getfd and process_madvise (434, 438, 440).
_ABSENT = (
    "clone3",
    "io_setup",
    "io_submit",
    *(f"SYSCALL[{number}]" for number in (425, 426, 427, 434, 438, 440)),
)

# Families other than Unix, IPv4 and IPv6 (EAFNOSUPPORT): virtual machines' sockets, say, reach past the jail's network.
_OTHER_SOCKETS = "socket(family) { family != 1 && family != 2 && family != 10 }"

POLICY = f"POLICY judge {{ ERRNO(1) {{ {', '.join(_REFUSED)} }}, ERRNO(38) {{ {', '.join(_ABSENT)} }},"
POLICY += f" ERRNO(97) {{ {_OTHER_SOCKETS} }} }}"
POLICY += " USE judge DEFAULT ALLOW"
