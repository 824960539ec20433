"""Runs the program in this process, which kills itself with -9 at a given moment.

    play.py MOMENT FOLDER OVERRIDE...

MOMENT is never, or METHOD:WORD:N, the N-th call of the ledger's METHOD with WORD as first argument.
"""

import os
import signal
import sys

from clawloop import cli
from clawloop.store.ledger import Ledger


def arm(method: str, word: str, number: int) -> None:
    """Kill this process just before the ledger does what would be its N-th such thing."""
    inner = getattr(Ledger, method)
    seen = [0]

    def guarded(self: Ledger, first: object, *rest: object, **named: object) -> object:
        if first == word:
            seen[0] += 1
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return inner(self, first, *rest, **named)

    setattr(Ledger, method, guarded)


if __name__ == "__main__":
    moment, folder, *overrides = sys.argv[1:]
    if moment != "never":
        method, word, number = moment.split("@")
        arm(method, word, int(number))
    sys.argv = ["clawloop", "+experiment=main", "scale=debug", "tracker=[jsonl]", f"resume={folder}", *overrides]
    cli.main()
