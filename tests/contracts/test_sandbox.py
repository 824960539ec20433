"""What every implementation of `protocols.Sandboxes` must do."""

import pytest

from clawloop.protocols import Sandboxes
from clawloop.types import Limits, Workspace


@pytest.fixture(scope="module")
def sandboxes(boxes) -> Sandboxes:
    return boxes


def sh(box, line, **options):
    return box.run(["/bin/sh", "-c", line], **options)


def test_a_command_sees_the_workspace_and_its_environment(sandboxes):
    with sandboxes.open(Workspace({"a/b.txt": b"one\n"}, {"COLOUR": "blue"})) as box:
        result = sh(
            box, 'pwd; cat a/b.txt; echo "$COLOUR $SHADE"; echo oops >&2; exit 3', environment={"SHADE": "dark"}
        )
        assert (result.exit_code, result.stopped) == (3, "")
        assert result.stdout == b"/workspace\none\nblue dark\n"
        assert result.stderr == b"oops\n"
        assert result.seconds > 0


def test_files_last_from_command_to_command_and_go_with_the_box(sandboxes):
    with sandboxes.open(Workspace()) as box:
        assert sh(box, "mkdir d && echo 1 > d/x && touch /tmp/t").exit_code == 0
        assert sh(box, "cat d/x").stdout == b"1\n"
        assert sh(box, "test -e /tmp/t").exit_code == 1  # only the workspace lasts
    with sandboxes.open(Workspace()) as box:
        assert sh(box, "ls -A").stdout == b""


def test_a_missing_program_is_code_127_and_no_breakdown(sandboxes):
    with sandboxes.open(Workspace()) as box:
        assert box.run(["no-such-program"]).exit_code == 127
        assert sh(box, "kill -9 $$").exit_code == 137


@pytest.mark.parametrize("command", [[], ["echo", "a\0b"], ["echo", "\ud800"], ["echo", "x" * 300_000], ["a"] * 9000])
def test_an_impossible_command_is_the_commands_fault(sandboxes, command):
    with sandboxes.open(Workspace()) as box:
        assert box.run(command).exit_code == 126
        assert sh(box, "true").exit_code == 0


def test_time_runs_out_for_the_whole_tree(sandboxes):
    with sandboxes.open(Workspace()) as box:
        result = sh(box, "echo early; (setsid sleep 60 &) ; trap '' TERM; sleep 60", timeout_s=0.5)
        assert (result.exit_code, result.stopped, result.stdout) == (None, "timeout", b"early\n")
        assert result.seconds < 5


def test_output_is_cut_and_a_flood_is_stopped(sandboxes):
    with sandboxes.open(Workspace(), Limits(output=1000)) as box:
        result = sh(box, "head -c 3000 /dev/zero; echo done >&2")
        assert (result.exit_code, len(result.stdout), result.stderr) == (0, 1000, b"done\n")
        result = sh(box, "yes", timeout_s=10)
        assert (result.exit_code, result.stopped, len(result.stdout)) == (None, "output", 1000)
        assert result.seconds < 5


def test_read_write_and_snapshot(sandboxes):
    with sandboxes.open(Workspace({"keep.txt": b"k"})) as box:
        box.write("new/deep/file.bin", b"\0\xff")
        box.write("keep.txt", b"changed")
        assert sh(box, "wc -c < new/deep/file.bin; cat keep.txt").stdout == b"2\nchanged"
        assert sh(box, "rm keep.txt; mkdir empty; ln -s / link").exit_code == 0
        assert box.read("new/deep/file.bin", 2) == b"\0\xff"
        with pytest.raises(OSError, match="larger than 1 bytes"):
            box.read("new/deep/file.bin", 1)
        with pytest.raises(FileNotFoundError):
            box.read("keep.txt", 10)
        snapshot = box.snapshot()
        assert dict(snapshot.files) == {"new/deep/file.bin": b"\0\xff"}
        assert snapshot.directories == ("empty", "new", "new/deep")
        assert dict(snapshot.refused) == {"link": "link"}


BAD_PATHS = [
    "",
    "/etc/x",
    "../x",
    "a/../b",
    "a//b",
    "./a",
    "a\0b",
    "a\nb",
    "x" * 256,
    "\u202ea",
    "a/" * 40 + "b",
    "\ud800",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_malformed_paths_are_refused(sandboxes, path):
    with pytest.raises(ValueError, match="workspace path"), sandboxes.open(Workspace({path: b""})):
        pytest.fail("opened")


def test_hostname_disk_and_environment_are_the_callers(sandboxes):
    with sandboxes.open(Workspace({"a": b"1"}), hostname="other", on_disk=True) as box:
        assert sh(box, "hostname 2>/dev/null || cat /proc/sys/kernel/hostname; cat a").stdout == b"other\n1"
    for wrong in ("-x", "", "a b", "x" * 64):
        with pytest.raises(ValueError, match="host name"), sandboxes.open(Workspace(), hostname=wrong):
            pytest.fail("opened")
    with pytest.raises(ValueError, match="environment variable"), sandboxes.open(Workspace({}, {"A=B": "1"})):
        pytest.fail("opened")


def test_a_workspace_over_its_limits_is_refused(sandboxes):
    with pytest.raises(ValueError), sandboxes.open(Workspace({"a": b"x" * (2 << 20)}), Limits(workspace=1 << 20)):
        pytest.fail("opened")
    many = Workspace({f"{i}": b"" for i in range(50)})
    with pytest.raises(ValueError), sandboxes.open(many, Limits(workspace_files=20)):
        pytest.fail("opened")


def test_file_size_open_files_and_processor_time(sandboxes):
    limits = Limits(file_size=1 << 20, open_files=32, cpu_s=1)
    with sandboxes.open(Workspace(), limits) as box:
        assert sh(box, "head -c 1048576 /dev/zero > fits").exit_code == 0
        assert sh(box, "truncate -s 1T big").exit_code != 0
        assert sh(box, "head -c 2000000 /dev/zero > big; wc -c < big").stdout == b"1048576\n"
        program = "import os\nfor i in range(100): os.open('/', 0)"
        assert b"Too many open files" in box.run(["python3", "-c", program]).stderr
        spin = sh(box, "while :; do :; done", timeout_s=15)
        assert (spin.exit_code, spin.stopped) == (152, "")  # SIGXCPU


def test_the_hard_limits_cannot_be_raised(sandboxes):
    with sandboxes.open(Workspace(), Limits(open_files=32)) as box:
        assert sh(box, "ulimit -n 32").exit_code == 0
        assert sh(box, "ulimit -n 33").exit_code != 0


def test_memory(sandboxes):
    hog = "a = bytearray({} << 20); print(len(a) >> 20)"
    with sandboxes.open(Workspace(), Limits(memory=128 << 20)) as box:
        assert box.run(["python3", "-c", hog.format(40)]).stdout == b"40\n"
        result = box.run(["python3", "-c", hog.format(400)])
        assert result.exit_code != 0 and result.stdout == b""
        if sandboxes.enforced["memory"] == "tree":
            assert (result.exit_code, result.stopped) == (None, "memory")
            hogs = "python3 -c 'a = bytearray(60 << 20); import time; time.sleep(2)' & " * 4
            assert sh(box, hogs + "wait").stopped == "memory"
        assert sh(box, "echo fine").stdout == b"fine\n"  # the box outlives it


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_workspace_is_bounded(sandboxes, on_disk):
    limits = Limits(workspace=2 << 20, workspace_files=100, file_size=1 << 20)
    with sandboxes.open(Workspace(), limits, on_disk=on_disk) as box:
        fill = sh(box, "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $i || echo no; done")
        many = sh(box, "rm -f *; i=0; while [ $i -lt 200 ]; do : > f$i || exit 9; i=$((i+1)); done")
        if sandboxes.enforced["workspace"] == "tmpfs" and not on_disk:
            assert b"No space left" in fill.stderr and fill.stopped == ""
            assert many.exit_code not in (0, None)
        else:
            assert (fill.exit_code, fill.stopped) == (None, "workspace")
            assert (many.exit_code, many.stopped) == (None, "workspace")
        assert sh(box, "rm -f *; echo ok > a").exit_code == 0


def test_tmp_and_shared_memory_are_bounded(sandboxes):
    with sandboxes.open(Workspace(), Limits(tmp=1 << 20)) as box:
        assert sh(box, "head -c 900000 /dev/zero > /tmp/a").exit_code == 0
        assert b"No space left" in sh(box, "head -c 3000000 /dev/zero > /tmp/a").stderr
        fill = sh(box, "for i in 1 2 3; do head -c 8000000 /dev/zero > /dev/shm/$i; done")
        assert b"No space left" in fill.stderr


def test_snapshot_is_bounded(sandboxes):
    limits = Limits(workspace=1 << 20, workspace_files=60, file_size=1 << 19)
    with sandboxes.open(Workspace(), limits) as box:
        sh(box, "truncate -s 400k a b c; truncate -s 512k d; mkdir m; cd m; for i in $(seq 40); do : > $i; done")
        snapshot = box.snapshot()
        assert sum(map(len, snapshot.files.values())) <= 1 << 20
        assert {"a", "b"} <= set(snapshot.files) and snapshot.refused["c"] == snapshot.refused["d"] == "too_large"
        assert box.run(["truncate", "-s", "1000k", "a"]).exit_code != 0
