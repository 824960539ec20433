"""The system calls that a box refuses: a classic BPF program for `bwrap --seccomp`, a JSON profile for Docker.

Namespaces and dropped capabilities already fence a box in. This filter takes away what they do not cover: socket
families that no network namespace confines (vsock, AF_ALG), new namespaces, kernel interfaces with a history of holes.
"""

import json
import struct

_X86_64, _AARCH64 = 0, 1

# name: (number on x86_64, number on aarch64)
_DENIED = {
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "clock_settime": (227, 112),
    "mbind": (237, 235),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
}
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SOCKET = ((41, 53), (198, 199))  # socket, socketpair
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}

_MACHINES = {"x86_64": (_X86_64, 0xC000003E), "aarch64": (_AARCH64, 0xC00000B7)}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_NUMBER, _ARCHITECTURE, _ARGUMENT_0 = 0, 4, 16  # offsets in struct seccomp_data


def deny_filter(machine: str) -> bytes | None:
    """The filter for a machine as `platform.machine()` names it, or None for one whose numbers are not listed here.

    A denied call fails with EPERM; clone3 with ENOSYS, so that libc falls back to clone, whose flags can be read;
    a call of another architecture (32-bit) kills the process.

    >>> len(deny_filter("x86_64")) % 8
    0
    >>> deny_filter("z80") is None
    True
    """
    if machine not in _MACHINES:
        return None
    column, architecture = _MACHINES[machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]

    def refuse(test: int, value: int, answer: int) -> None:
        code.extend([(test, 0, 1, value), (_RETURN, 0, 0, answer)])

    if machine == "x86_64":
        refuse(_AT_LEAST, 0x40000000, _EPERM)  # the x32 numbers
    for numbers in _DENIED.values():
        refuse(_EQUAL, numbers[column], _EPERM)
    refuse(_EQUAL, _CLONE3[column], _ENOSYS)
    code += [
        (_EQUAL, 0, 4, _CLONE[column]),  # not clone: on to sockets
        (_LOAD, 0, 0, _ARGUMENT_0),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    socket, socketpair = _SOCKET[column]
    code += [(_EQUAL, 2, 0, socket), (_EQUAL, 1, 0, socketpair), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _ARGUMENT_0)]
    for left, family in zip(range(len(_FAMILIES) - 1, -1, -1), _FAMILIES, strict=True):
        code.append((_EQUAL, left + 1, 0, family))
    code += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *line) for line in code)


def deny_profile() -> str:
    """The same refusals as a profile of a Docker engine, which knows the numbers of its machine.

    A call of another architecture kills the process here too: the profile names none.

    >>> "clone3" in deny_profile()
    True
    """

    def refuse(*names: str, error: int = 1, **argument: object) -> dict[str, object]:
        conditions = [{"index": 0, **argument}] if argument else []
        return {"names": [*names], "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": conditions}

    sockets = [family for family in range(max(_FAMILIES) + 1) if family not in _FAMILIES]
    spaces = [1 << bit for bit in range(_NEW_NAMESPACES.bit_length()) if _NEW_NAMESPACES >> bit & 1]
    rules = [
        refuse(*_DENIED),
        refuse("clone3", error=_ENOSYS & 0xFFFF),
        *(refuse("clone", op="SCMP_CMP_MASKED_EQ", value=one, valueTwo=one) for one in spaces),
        *(refuse("socket", "socketpair", op="SCMP_CMP_EQ", value=family) for family in sockets),
        refuse("socket", "socketpair", op="SCMP_CMP_GT", value=max(_FAMILIES)),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})
