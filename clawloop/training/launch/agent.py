"""torchrun, ended by the kernel as soon as the process that started it ends."""

import ctypes
import os
import signal
import sys

PARENT = "CLAWLOOP_PARENT"
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends, and end now if that is over already.

    The variable CLAWLOOP_PARENT holds the number of that process, which a later parent has not.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.environ.get(PARENT, str(os.getppid())) != str(os.getppid()):
        os._exit(1)


if __name__ == "__main__":
    die_with_parent()
    os.environ[PARENT] = str(os.getpid())
    from torch.distributed.run import main

    main(sys.argv[1:])
