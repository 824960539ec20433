"""Attempts to get out of a box or over its limits. Each is a program that prints `through` where it succeeds.

All are harmless where a sandbox fails: they talk to a listener of the doctor, read its bait, and write only where they
are run.
"""

from dataclasses import dataclass, field

from clawloop.types import Limits

MARK = "CLAWLOOP_DOCTOR_MARK"
"""An environment variable of the doctor that no box may see."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A property, the program that would break it, and what to do where it does.

    The program reads `folder`, `port`, `mark` and `pid` of the doctor. `stops` says that being stopped for it holds.
    """

    holds: str
    program: str
    cure: str
    limits: Limits = field(default_factory=Limits)
    stops: str = ""


_TREE_CURE = "run as root, where bubblewrap gets cgroups, or choose sandbox=docker."
_FENCE_CURE = "this sandbox must not be used: choose another, and report what `clawloop doctor` printed."
_FILTER_CURE = "the system call filter is not in force: use x86_64 or aarch64, and an engine with seccomp."

ATTEMPTS = (
    Attempt(
        "no network",
        "import socket; socket.create_connection(('127.0.0.1', port), 3); print('through')",
        _FENCE_CURE,
    ),
    Attempt("no files of the host", "print(open(folder + '/secret').read())", _FENCE_CURE),
    Attempt(
        "no environment of the caller",
        "import glob, os\nseen = b''\n"
        "for path in glob.glob('/proc/*/environ'):\n"
        "    try: seen += open(path, 'rb').read()\n    except OSError: pass\n"
        "print('through' if mark.encode() in seen else 'not seen')",
        _FENCE_CURE,
    ),
    Attempt(
        "no processes of the host",
        "print('through' if mark.encode() in open(f'/proc/{pid}/environ', 'rb').read() else 'another')",
        _FENCE_CURE,
    ),
    Attempt(
        "nothing written outside the workspace",
        "import os\nprint('through' if any(os.access(place, os.W_OK) for place in (folder, *places)) else 'none')",
        _FENCE_CURE,
    ),
    Attempt(
        "no capabilities",
        "lines = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print('through' if int(lines['CapEff'], 16) else 'none')",
        _FENCE_CURE,
    ),
    Attempt("no vsock", "import socket; socket.socket(40, 1); print('through')", _FILTER_CURE),
    Attempt("no AF_ALG", "import socket; socket.socket(38, 5); print('through')", _FILTER_CURE),
    Attempt(
        "no namespaces of its own",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.unshare(0x10000000): raise OSError(ctypes.get_errno(), 'unshare')\nprint('through')",
        _FILTER_CURE,
    ),
    Attempt(
        "memory of the whole tree",
        "import os, time\nchildren = []\nfor _ in range(4):\n    child = os.fork()\n    if not child:\n"
        "        held = bytearray(70 << 20); time.sleep(1.5); os._exit(0)\n    children.append(child)\n"
        "print('through' if all(os.waitpid(child, 0)[1] == 0 for child in children) else 'stopped')",
        _TREE_CURE,
        Limits(memory=160 << 20),
        "memory",
    ),
    Attempt(
        "number of processes",
        "import os, time\nfor _ in range(90):\n    if not os.fork(): time.sleep(1); os._exit(0)\nprint('through')",
        _FENCE_CURE,
        Limits(processes=48),
    ),
    Attempt(
        "size of the workspace",
        "for i in range(8):\n    with open(f'{here}/f{i}', 'wb') as file: file.write(bytes(1 << 20))\nprint('through')",
        _FENCE_CURE,
        Limits(workspace=4 << 20),
        "workspace",
    ),
    Attempt(
        "size of a file",
        "open(f'{here}/f', 'wb').write(bytes(3 << 20)); print('through')",
        _FENCE_CURE,
        Limits(file_size=1 << 20),
    ),
    Attempt(
        "amount of output",
        "import sys; sys.stdout.write('through' + 'x' * (5 << 20))",
        _FENCE_CURE,
        Limits(output=1 << 16),
        "output",
    ),
    Attempt(
        "time of the whole tree",
        "import os, time\nif not os.fork(): os.setsid(); time.sleep(2.5); print('through', flush=True)\n"
        "else: time.sleep(3)",
        _FENCE_CURE,
        Limits(wall_s=1.0),
        "timeout",
    ),
)
