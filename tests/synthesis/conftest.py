"""Shared fixtures: MCP servers from PyPI, installed into a folder that boxes may see and that later runs use again."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from clawloop.synthesis.skills.domain import place
from clawloop.synthesis.skills.server import read_server


@pytest.fixture(scope="session")
def operations() -> str:
    """The folder with the packages that the domain `operations` names."""
    at = Path(place("operations")) / "server.yaml"
    return _installed(read_server(at.read_text(), str(at)).install)


def _installed(pins: Sequence[str]) -> str:
    """The folder with the packages, for the Python that boxes see; made where there is none, else used again."""
    ask = [shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3", "-c"]
    version = subprocess.check_output([*ask, "import sys; print('%d.%d' % sys.version_info[:2])"], text=True).strip()
    name = hashlib.sha256(" ".join((version, *sorted(pins))).encode()).hexdigest()[:12]
    folder = Path("/var/tmp") / f"clawloop-mcp-{os.getuid()}-{name}"
    if not folder.is_dir():
        made = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(made)]
        wheels = ["--only-binary=:all:", "--python-version", version]
        done = subprocess.run([*pip, *wheels, *pins], capture_output=True, text=True, check=False, timeout=240)
        if done.returncode:
            shutil.rmtree(made)
            pytest.skip(f"PyPI gave no {' '.join(pins)}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}")
        made.chmod(0o755)
        try:
            made.rename(folder)
        except OSError:  # another worker was faster
            shutil.rmtree(made)
            assert folder.is_dir()
    return str(folder)
