"""Limits, lifecycle and clean-up of bubblewrap boxes."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.sandbox import folder as folders
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.sandbox.cgroup import open_group
from clawloop.sandbox.workspace import remove_tree
from clawloop.types import Workspace

ROOT = os.geteuid() == 0
PREFIX = f"clawloop-test-{os.getpid()}-"


@pytest.fixture(autouse=True)
def own_folders(monkeypatch):
    """Folder names of this process alone, so that other runs on the machine do not look like leaks."""
    monkeypatch.setattr(folders, "_PREFIX", PREFIX)


@pytest.fixture
def boxes() -> Bubblewrap:
    return Bubblewrap()


def sh(box, line, **options):
    return box.run(["/bin/sh", "-c", line], **options)


def state() -> tuple[int, list[str], list[str], list[str]]:
    """What a leak would show in: descriptors (but for garbage of other tests), mounts, folders, cgroups."""
    gc.collect()
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if PREFIX in line]
    found = [str(p) for base in (Path("/tmp"), Path("/var/tmp")) for p in base.glob(f"{PREFIX}*")]
    groups = glob(f"/sys/fs/cgroup/*/**/{PREFIX}*/", recursive=True) if ROOT else []
    return len(os.listdir("/proc/self/fd")), mounts, found, groups


def zombies() -> set[str]:
    """Dead processes that nobody has waited for, of the users that boxes have or of this process's own."""
    command = ["ps", "-eo", "pid=,uid=,stat=,comm="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    first = 200_000 if ROOT else os.geteuid()
    return {line for line in lines if line.split()[2].startswith("Z") and int(line.split()[1]) >= first}


def test_what_is_enforced_is_said(boxes):
    assert set(boxes.enforced) == {"memory", "processes", "workspace", "calls", "user"}
    if ROOT:
        assert boxes.enforced["user"] == "private"
    else:
        assert boxes.enforced["memory"] == "process"


def test_many_quick_runs_leave_nothing(boxes):
    before, dead = state(), zombies()
    with boxes.open(Workspace()) as box:
        assert all(box.run(["/bin/true"]).exit_code == 0 for _ in range(150))
    assert state() == before
    assert zombies() <= dead


def test_thirty_two_boxes_at_once(boxes):
    before, dead = state(), zombies()
    program = (
        "import os; print(sum(range(10000)), os.listdir('.'), len([p for p in os.listdir('/proc') if p.isdigit()]))"
    )

    def one(i: int) -> bytes:
        with boxes.open(Workspace({f"own{i}": b""})) as box:
            return box.run(["python3", "-c", program], timeout_s=60).stdout

    with ThreadPoolExecutor(32) as pool:
        said = list(pool.map(one, range(32)))
    assert said == [f"49995000 ['own{i}'] 2\n".encode() for i in range(32)]
    assert state() == before
    assert zombies() <= dead


def test_open_boxes_have_users_of_their_own(boxes):
    with boxes.open(Workspace({"a": b""})) as one, boxes.open(Workspace({"a": b""})) as two:
        assert one.run(["id", "-u"]).stdout == two.run(["id", "-u"]).stdout == b"1000\n"
        if ROOT:
            seen = {os.stat(p / "w" / "a").st_uid for p in Path("/tmp").glob(f"{PREFIX}*")}
            assert len(seen) >= 2 and min(seen) >= 200_000


def test_a_box_is_gone_after_an_error(boxes):
    before = state()
    with pytest.raises(KeyError), boxes.open(Workspace()):
        raise KeyError("from the caller")
    with pytest.raises(ValueError), boxes.open(Workspace({"ok": b"", "../no": b""})):
        pytest.fail("opened")
    assert state() == before


EVIL = r"""
import os
os.makedirs('shut/in'); open('shut/in/x', 'w').close(); os.chmod('shut/in', 0); os.chmod('shut', 0)
for name in (b'-rf', b'new\nline', b'\xe9', 'e\u0301'.encode(), '\xe9'.encode(), '\u202e'.encode(), b'*'):
    open(name, 'w').close()
os.mkfifo('fifo'); os.symlink('/', 'up')
for _ in range(1100):
    os.mkdir('d'); os.chdir('d')
print('made')
"""


@pytest.mark.parametrize("on_disk", [False, True])
def test_evil_trees_are_removed(boxes, on_disk):
    before = state()
    with boxes.open(Workspace(), on_disk=on_disk) as box:
        made = box.run(["python3", "-c", EVIL])
        assert made.stdout == b"made\n", made
        snapshot = box.snapshot()
        assert snapshot.refused["fifo"] == "fifo" and snapshot.refused["up"] == "link"
        assert snapshot.refused[r"new\nline"] == snapshot.refused[r"\xe9"] == snapshot.refused[r"\u202e"] == "bad_name"
        assert {"-rf", "*", "\xe9", "e\u0301"} <= set(snapshot.files)
        assert "too_large" in snapshot.refused.values() and len(snapshot.directories) < 50
    assert state() == before


def test_remove_tree_stays_inside(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "below" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "tree")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]
    assert (tmp_path / "kept" / "file").read_text() == "x"


def test_a_name_may_be_taken_again_while_its_old_tree_is_being_removed(tmp_path):
    def claim_and_remove(_: int) -> None:
        while True:
            try:
                (tmp_path / "box").mkdir()
                break
            except FileExistsError:
                time.sleep(0)
        for name in ("a", "b", "c"):
            (tmp_path / "box" / name / "d").mkdir(parents=True)
        remove_tree(tmp_path / "box")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(claim_and_remove, range(200)))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not ROOT, reason="only root makes cgroups")
def test_a_cgroup_whose_processes_linger_does_not_stand_in_the_way_of_the_next():
    name = f"{PREFIX}group"
    first = open_group(name, memory=1 << 28, processes=8)
    enter = "".join(f"echo 0 >{path} && " for path in first.entries)
    lingers = subprocess.Popen(["/bin/sh", "-c", f"{enter}echo in && exec sleep 60"], stdout=subprocess.PIPE)
    assert lingers.stdout is not None and lingers.stdout.readline() == b"in\n"
    second = open_group(name, memory=1 << 28, processes=8)
    assert not set(first.entries) & set(second.entries)
    second.close()
    lingers.kill()
    lingers.communicate()
    open_group(name, memory=1 << 28, processes=8).close()
    assert not any(Path(entry).exists() for entry in first.entries)


def test_the_callers_environment_and_streams_stay_outside(boxes, monkeypatch):
    monkeypatch.setenv("CLAWLOOP_TEST_SECRET", "s3cret-value")
    with boxes.open(Workspace()) as box:
        said = sh(box, "env; cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
        assert b"PATH=/usr/local/bin:/usr/bin:/bin" in said
        assert b"s3cret-value" not in said and PREFIX.encode() not in said
        assert sh(box, "read x; echo got $?", timeout_s=5).stdout == b"got 1\n"


def test_death_of_the_caller_is_death_of_the_box_and_the_next_start_sweeps():
    program = (
        "from clawloop.sandbox import folder\nfrom clawloop.sandbox.bubblewrap import Bubblewrap\n"
        f"from clawloop.types import Workspace\nfolder._PREFIX = {PREFIX!r}\n"
        "with Bubblewrap().open(Workspace({'mark-of-the-killed': b''})) as box:\n"
        "    print('open', flush=True); box.run(['sh', '-c', 'setsid sleep 4321 & sleep 4321'], timeout_s=60)"
    )
    top = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=top)

    def sleepers() -> bool:
        return subprocess.run(["pgrep", "-f", "^sleep 4321"], capture_output=True, check=False).returncode == 0

    assert child.stdout is not None and child.stdout.readline() == "open\n"
    deadline = time.monotonic() + 10
    while not sleepers() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sleepers()  # the control: they do run
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not sleepers()
    marks = list(Path("/tmp").glob(f"{PREFIX}*/w/mark-of-the-killed"))
    assert marks
    Bubblewrap()
    assert not any(p.exists() for p in marks)


def test_an_open_box_is_not_swept(boxes):
    with boxes.open(Workspace({"a": b"1"})) as box:
        Bubblewrap()
        assert box.read("a", 1) == b"1"
        assert sh(box, "cat a").stdout == b"1"


def test_missing_bubblewrap_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="apt install bubblewrap"):
        Bubblewrap()


def test_refused_namespaces_say_what_to_allow(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(InfrastructureError, match=r"No permissions to create new namespace.*sysctl"):
        Bubblewrap()


def test_limits_may_be_a_mapping():
    with Bubblewrap({"wall_s": 0.3}).open(Workspace()) as box:
        assert sh(box, "sleep 5").stopped == "timeout"
    with pytest.raises(ValueError, match="no 'wal_s'; the names are wall_s"):
        Bubblewrap({"wal_s": 1})
    with pytest.raises(ValueError, match="holds no usr folder"):
        Bubblewrap(root="/dev")


@pytest.fixture
def shown() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="clawloop-shown-"))  # tmp_path lies where only its owner may enter
    folder.chmod(0o755)
    (folder / "tool.txt").write_text("hammer")
    yield folder
    remove_tree(folder)


def test_a_mounted_folder_is_seen_and_cannot_be_changed(shown: Path) -> None:
    with Bubblewrap(mounts={"/opt/tools": str(shown)}).open(Workspace()) as box:
        assert sh(box, "cat /opt/tools/tool.txt").stdout == b"hammer"
        assert sh(box, "echo saw > /opt/tools/tool.txt; rm /opt/tools/tool.txt; touch /opt/tools/new").exit_code != 0
    assert [(path.name, path.read_text()) for path in shown.iterdir()] == [("tool.txt", "hammer")]


@pytest.mark.parametrize("inside", ["/usr/lib", "opt/tools", "/opt", "/opt/../etc", "/workspace/x", "/tmp/x"])
def test_a_mount_lies_beside_what_a_box_has(shown: Path, inside: str) -> None:
    with pytest.raises(ValueError, match=r"mounts: .* must be a path in one of /opt, /srv, /mnt"):
        Bubblewrap(mounts={inside: str(shown)})


def test_a_mount_that_boxes_could_not_see_is_refused(shown: Path) -> None:
    with pytest.raises(ValueError, match=r"/opt/tools must show a folder, and .*nothing is none"):
        Bubblewrap(mounts={"/opt/tools": str(shown / "nothing")})
    if ROOT:
        (shown / "inner").mkdir()
        shown.chmod(0o700)
        with pytest.raises(ValueError, match=r"others may not enter .*clawloop-shown-"):
            Bubblewrap(mounts={"/opt/tools": str(shown / "inner")})


def test_a_folder_that_others_may_change_is_not_shown(shown: Path) -> None:
    """What a harness mounts runs as the agent's program, with the session's key."""
    tools = shown / "tools"
    tools.mkdir()

    def shows() -> None:
        Bubblewrap(mounts={"/opt/tools": str(tools)})

    def refused() -> None:
        with pytest.raises(ValueError, match="others than root and you may change") as caught:
            shows()
        assert "\n" not in str(caught.value)

    shows()
    tools.chmod(0o757)
    refused()
    tools.chmod(0o755)
    shown.chmod(0o777)  # whoever may write above may put another folder in its place
    refused()
    shown.chmod(0o1777)
    shows()
    if ROOT:
        os.chown(tools, 12_345, -1)
        refused()
