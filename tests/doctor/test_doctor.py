"""`clawloop doctor` says of a sandbox that holds that it does, and of one that does not that it does not."""

import subprocess
import tempfile
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from clawloop.doctor import attempts, command
from clawloop.doctor.attempts import ATTEMPTS
from clawloop.doctor.examine import bait, examine, verdict
from clawloop.protocols import InfrastructureError
from clawloop.types import CommandResult


class Open:
    """No sandbox at all: commands run here, in a folder, for as long as they like."""

    @contextmanager
    def open(self, workspace, limits=None, *, hostname="box", on_disk=False):
        with tempfile.TemporaryDirectory() as folder:

            def run(words, *, timeout_s=None, environment=None):
                done = subprocess.run(words, capture_output=True, cwd=folder, check=False, timeout=20)
                return CommandResult(done.returncode, done.stdout, done.stderr)

            yield SimpleNamespace(run=run)


def test_where_nothing_holds_every_attempt_gets_through(monkeypatch):
    with bait() as laid:
        monkeypatch.setenv(attempts.MARK, laid.mark)
        found = {finding.holds: finding for finding in examine(Open(), laid, ATTEMPTS)}
    assert set(found) == {attempt.holds for attempt in ATTEMPTS}
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert "held" not in verdicts.values()
    may_be_missing = {"no vsock", "no AF_ALG", "no namespaces of its own", "no capabilities"}  # to kernels and users
    assert {name for name, said in verdicts.items() if said == "cannot tell"} <= may_be_missing
    assert all(finding.words for finding in found.values())


def test_a_verdict_needs_its_control():
    attempt = ATTEMPTS[0]
    assert verdict(attempt, b"through\n", b"", b"", b"refused", "").verdict == "held"
    assert verdict(attempt, b"", b"refused", b"", b"refused", "").verdict == "cannot tell"
    assert verdict(attempt, b"", b"", b"through\n", b"", "").verdict == "not held"
    eperm = b"PermissionError: [Errno 1] Operation not permitted"
    assert verdict(attempt, b"", b"[Errno 97]", b"", eperm, "").verdict == "held"
    assert verdict(attempt, b"", eperm, b"", eperm, "").verdict == "cannot tell"


def test_being_stopped_counts_only_for_what_an_attempt_is_about():
    flood = next(attempt for attempt in ATTEMPTS if attempt.stops == "output")
    assert verdict(flood, b"through", b"", b"through", b"", "output").verdict == "held"
    assert verdict(flood, b"through", b"", b"through", b"", "timeout").verdict == "not held"


@pytest.fixture
def only(monkeypatch, tmp_path):
    """A doctor that knows one sandbox, whose yaml is this text, or none."""
    (tmp_path / "sandbox").mkdir()
    monkeypatch.setattr(command, "data_dir", lambda _: tmp_path)
    return tmp_path / "sandbox" / "one.yaml"


def test_bubblewrap_holds_on_this_machine(only, capsys):
    only.write_text("_target_: clawloop.sandbox.bubblewrap.Bubblewrap\n")
    assert command.doctor() == 0
    said = capsys.readouterr().out
    assert "cores" in said and "torch" in said
    for attempt in ATTEMPTS:
        assert f"  {attempt.holds:<38} held" in said


@pytest.mark.docker
def test_docker_holds_on_this_machine(only, capsys, docker_engine):
    only.write_text("_target_: clawloop.sandbox.docker.docker.Docker\nwarm: 8\n")
    assert command.doctor() == 0
    said = capsys.readouterr().out
    assert docker_engine in said
    for attempt in ATTEMPTS:
        assert f"  {attempt.holds:<38} held" in said


def test_what_does_not_hold_or_is_not_there_is_exit_code_1(only, capsys, monkeypatch):
    only.write_text("_target_: x.Y\n")
    monkeypatch.setattr(command, "part", lambda _: Open())
    assert command.doctor() == 1
    assert (
        "no files of the host                   not held     this sandbox must not be used" in capsys.readouterr().out
    )

    def missing(_):
        raise InfrastructureError("run `apt install bubblewrap`.")

    monkeypatch.setattr(command, "part", missing)
    assert command.doctor() == 1
    said = capsys.readouterr().out
    assert "not here: run `apt install bubblewrap`." in said and "no way without" in said
