"""A scripted agent that also writes generators and instructions: first nothing of use, then sound ones."""

import hashlib
import os
import re
from pathlib import Path

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.synthesis.author.model import prompt
from clawloop.types import Request

EXAMPLE = prompt.text("example.py.txt")
ORACLE = EXAMPLE.split("ORACLE = '''")[1].split("'''")[0]


class Wordsmith(ScriptedPolicy):
    """Knows the one task that its generators make, and notes in the file ASKED which ones it was asked for."""

    def __init__(self, slip: float = 0.5) -> None:
        super().__init__([{"when": "Write both to due.json", "say": f"```bash\n{ORACLE}\n```"}], slip)

    def _reply(self, request: Request) -> str:
        if not request.session.startswith("author/"):
            return super()._reply(request)
        with Path(os.environ["ASKED"]).open("a") as f:
            f.write(f"{request.session}\n")
        if len(request.messages) == 2:
            return "I think of bees."
        if goals := re.findall(r"^\d+\. .*$", request.messages[1].content, re.MULTILINE):
            return "\n".join(re.sub(r"^(\d+\.) ", r"\1 It is asked that ", goal) for goal in goals)
        draw = hashlib.sha256(request.session.encode()).digest()[0]
        lines = "".join(f"    due.{'copy' if draw >> bit & 1 else 'clear'}()\n" for bit in range(8))
        return "```python\n" + EXAMPLE.replace("    due = {}\n", "    due = {}\n" + lines) + "```\n"
