"""An agent that is a program of its own: agent.py.txt beside this module, and the settings that make it a harness."""

from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("agent.py.txt").read_text()


def agent(protocol: str = "chat") -> dict[str, Any]:
    """Settings of `harness.command` that start it, with a gateway that it asks in that protocol."""
    return {
        "command": ["python3", "$home/agent.py", protocol, "$instruction"],
        "environment": {"URL": "$url", "KEY": "$key"},
        "files": {"agent.py": PROGRAM},
    }
