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
