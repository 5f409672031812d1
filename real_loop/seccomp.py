"""The filter of system calls put on untrusted code: no new processes, no sockets, no memory that limits do not see.

Limits on the number of processes do not bind root, and some kernel objects (System V shared memory, memory files) are no
part of the address space that a process is limited to. Denied here, they are no way out. Sockets go because some families
(vsock) know no network namespace; the rest is what untrusted code has no use for. Threads stay allowed.
"""

from __future__ import annotations

import errno
import platform
import struct

# name: number on x86_64, number on aarch64 (None: no such call there)
_DENIED: dict[str, tuple[int, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "socket": (41, 198),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*
_CLONE3 = 435  # its flags lie behind a pointer that no filter can follow
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000  # numbers from here on are the x32 twins of the calls above

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF: LD|W|ABS, JMP|JEQ|K, |JGE, |JSET, RET|K
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data (the low half comes first on both machines)


def program(machine: str = "") -> bytes | None:
    """Return the filter as ``bwrap --seccomp`` reads it (struct sock_filter, one after another), or None for an unknown machine.

    Parameters
    ----------
    machine
        As ``platform.machine()`` says it; empty: this one.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURE:
        return None
    column = ("x86_64", "aarch64").index(machine)

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    deny = step(_RETURN, _ERRNO | errno.EPERM)
    steps = [
        step(_LOAD, _ARCH),
        step(_EQUAL, _ARCHITECTURE[machine], yes=1),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER),
        step(_AT_LEAST, _X32, no=1),
        deny,
        step(_EQUAL, _CLONE3, no=1),
        step(_RETURN, _ERRNO | errno.ENOSYS),  # the C library then tries clone
        step(_EQUAL, _CLONE[machine], no=4),
        step(_LOAD, _FIRST_ARGUMENT),
        step(_ANY_BIT, _CLONE_THREAD, yes=1),
        deny,
        step(_RETURN, _ALLOW),
    ]
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            steps += [step(_EQUAL, number, no=1), deny]
    return b"".join([*steps, step(_RETURN, _ALLOW)])
