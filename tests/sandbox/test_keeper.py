"""What the keeper of a container says of how it is held, while other processes change the files that it reads."""

from importlib.resources import files

from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Workspace

FLAPS = """
import ctypes, os, signal
rt = signal.SIGRTMIN
signal.pthread_sigmask(signal.SIG_BLOCK, {rt})
send = ctypes.CDLL(None).sigqueue
for _ in range(9):
    send(os.getpid(), int(rt), ctypes.c_void_p(0))
while True:
    send(os.getpid(), int(rt), ctypes.c_void_p(0))
    signal.sigtimedwait({rt}, 1)
"""
"""The user's waiting signals are 9, then 10, then 9: the line SigQ of /proc/self/status grows and shrinks."""
TRIES = 400


def test_the_keeper_reads_a_status_that_changes_under_it() -> None:
    keeper = (files("clawloop.sandbox.docker") / "keeper.sh").read_bytes()
    script = f"python3 flaps.py & for i in {{1..{TRIES}}}; do bash keeper.sh 1 < /dev/null; done"
    with Bubblewrap().open(Workspace({"flaps.py": FLAPS.encode(), "keeper.sh": keeper})) as box:
        result = box.run(["bash", "-c", script], timeout_s=60)
    said = [line.partition("capabilities")[2] for line in result.stdout.decode().splitlines()]
    assert said == ["=0000000000000000 no_new_privileges=1 seccomp=2 root=ro"] * TRIES, result
