"""Attacks on a box and on a grader, each with a control that shows the attack would work where nothing stops it.

All are harmless where the sandbox fails: they write only into folders and talk only to listeners that the test made.
"""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from clawloop.rollout.grade import GraderError, SandboxGrader
from clawloop.types import Card, Contract, FieldResult, Limits, Snapshot, Task, Verifier, Workspace

ROOT = os.geteuid() == 0
KEY = '{"total": 4}'


@pytest.fixture
def box(boxes):
    with boxes.open(Workspace(), Limits(wall_s=15, processes=48, memory=256 << 20)) as box:
        yield box


@pytest.fixture(scope="module")
def standing(boxes) -> int:
    """How many processes are in a box besides the command's own."""
    return {"Bubblewrap": 1, "Docker": 3}[type(boxes).__name__]


def sh(box, line, **options):
    return box.run(["/bin/sh", "-c", line], **options)


def py(box, program, **options):
    return box.run(["python3", "-I", "-c", program], **options)


def outside(*command: str, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, timeout=20, **options)


# --- reading what is not the agent's ---------------------------------------------------------------------------


def test_host_files_are_not_there(boxes, box, tmp_path):
    (tmp_path / "answer.json").write_text(KEY)
    assert outside("cat", str(tmp_path / "answer.json")).stdout == KEY.encode()
    assert sh(box, f"cat {tmp_path}/answer.json").exit_code == 1
    find = "find / -path /usr -prune -o -path /proc -prune -o -name '*.json' -print 2>/dev/null"
    assert sh(box, find).stdout == b""
    assert sh(box, f"echo 1 > /tmp/answer.json; {find}").stdout == b"/tmp/answer.json\n"
    shown = (
        b"" if type(boxes).__name__ == "Bubblewrap" else b"/root\n/sys\n"
    )  # an image has its own root, engines show /sys
    assert sh(box, "ls -d /root /home /sys /boot /mnt /opt /srv 2>/dev/null").stdout == shown
    assert sh(box, "ls -A /root").stdout == b""
    assert b"agent" in sh(box, "cat /etc/passwd").stdout
    assert sh(box, "cat /etc/shadow").exit_code == 1


def test_the_callers_secrets_are_not_in_sight(box, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "s3cret-value")
    assert b"s3cret-value" in outside("env").stdout
    assert b"s3cret-value" not in sh(box, "env; cat /proc/*/environ").stdout


def test_the_hosts_processes_are_not_in_sight(box, standing):
    own = int(sh(box, "ls -d /proc/[0-9]* | wc -l").stdout) - standing
    assert own in (2, 3)
    first = sh(box, "cat /proc/1/cmdline").stdout
    assert first.startswith((b"/bin/sh\0-c\0umask", b"/sbin/docker-init\0--\0/bin/bash\0"))
    assert not any(b"pytest" in sh(box, f"cat /proc/{pid}/cmdline").stdout for pid in (os.getpid(), os.getppid()))


KERNEL = ["/dev/kmsg", "/dev/mem", "/dev/vda", "/dev/kvm", "/dev/fuse", "/proc/kcore", "/sys/kernel"]


@pytest.mark.parametrize("path", KERNEL)
def test_kernel_interfaces_cannot_be_read(box, path):
    assert sh(box, f"head -c 1 {path}").exit_code != 0


# --- writing outside the workspace -----------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/usr/bin", "/dev", "/run", "/var", "/proc/sys/kernel"])
def test_the_system_is_read_only(box, folder):
    assert sh(box, f"touch {folder}/clawloop-was-here").exit_code != 0


@pytest.mark.parametrize("path", ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/usr/bin/env"])
def test_switches_of_the_system_are_not_writable(box, path):
    assert sh(box, f"test -w {path}").exit_code == 1


def test_what_must_be_writable_is(box):
    places = ("a", "/tmp/a", "/var/tmp/b", "/dev/shm/a", "/dev/null")
    assert sh(box, " && ".join(f"echo 1 > {place}" for place in places) + " && cat /tmp/b").stdout == b"1\n"


def test_hard_links_to_the_system_are_refused(box):
    assert b"cross-device" in sh(box, "ln /usr/bin/env here").stderr.lower()
    assert sh(box, "echo 1 > a; ln a b; cat b").stdout == b"1\n"
    assert box.read("b", 10) == b"1\n"


def test_setuid_files_are_of_no_use(box, tmp_path):
    assert sh(box, "cp /bin/sh s; chmod 4755 s; ./s -c 'id -u'").stdout == b"1000\n"
    if ROOT:
        assert sh(box, "stat -c %u s").stdout == b"1000\n"
        mine = list(Path("/tmp").glob("clawloop-box-*/w/s"))
        assert all(os.stat(p).st_uid >= 200_000 for p in mine)


def test_devices_and_attributes_are_refused(box):
    assert sh(box, "mknod d c 1 3").exit_code != 0
    assert py(box, "import os; open('a','w'); os.setxattr('a', 'security.x', b'1')").exit_code != 0


def test_the_workspace_cannot_be_made_unusable(box):
    assert sh(box, "echo 1 > a; chmod 000 /workspace").exit_code == 0
    assert dict(box.snapshot().files) == {"a": b"1\n"}
    assert sh(box, "cat a").stdout == b"1\n"
    assert sh(box, "rm -rf /workspace; mv /workspace /tmp/x").exit_code != 0
    assert sh(box, "pwd").stdout == b"/workspace\n"


# --- the network and the kernel --------------------------------------------------------------------------------


def test_no_network(box):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('through')"
        assert outside(sys.executable, "-c", program).stdout == b"through\n"
        assert b"ConnectionRefused" in py(box, program).stderr
    away = "import socket; s = socket.socket(); s.settimeout(2); s.connect(('192.0.2.1', 9))"
    assert b"unreachable" in py(box, away).stderr


def test_abstract_sockets_of_the_host_are_out_of_reach(box):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0clawloop-test-{os.getpid()}")
        server.listen()
        name = f"\\0clawloop-test-{os.getpid()}"
        program = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{name}'); print('in')"
        assert outside(sys.executable, "-c", program).stdout == b"in\n"
        assert b"ConnectionRefused" in py(box, program).stderr


FAMILIES = [
    (1, True),
    (2, True),
    (10, True),
    (16, True),
    (40, False),
    (38, False),
    (17, False),
]  # 40: vsock, 38: AF_ALG


@pytest.mark.parametrize(("family", "allowed"), FAMILIES)
def test_socket_families(boxes, box, family, allowed):
    if boxes.enforced["calls"] == "unfiltered":
        pytest.skip("no filter for this processor")
    kind = 3 if family == 16 else 1
    result = py(box, f"import socket; socket.socket({family}, {kind}); print('made')")
    assert (result.stdout == b"made\n") is allowed
    assert allowed or b"PermissionError" in result.stderr  # EPERM of the filter, and not a missing family


CALLS = {
    "ptrace": "libc.ptrace(0, 0, 0, 0)",
    "unshare": "libc.unshare(0x10000000)",
    "mount": "libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
    "clock": "libc.clock_settime(0, (ctypes.c_long * 2)(1, 0))",
    "keyctl": "libc.syscall({keyctl}, 0, -3, 0, 0, 0)",
    "bpf": "libc.syscall({bpf}, 0, None, 0)",
    "userfaultfd": "libc.syscall({userfaultfd}, 0)",
    "io_uring": "libc.syscall(425, 1, None)",
    "perf": "libc.syscall({perf}, None, 0, -1, -1, 0)",
    "clone into a new namespace": "libc.syscall({clone}, 0x10000000 | 17, None, None, None, None)",
}
NUMBERS = {
    "x86_64": {"keyctl": 250, "bpf": 321, "userfaultfd": 323, "perf": 298, "clone": 56},
    "aarch64": {"keyctl": 219, "bpf": 280, "userfaultfd": 282, "perf": 241, "clone": 220},
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_dangerous_calls_fail_with_eperm(boxes, box, name):
    if boxes.enforced["calls"] == "unfiltered":
        pytest.skip("no filter for this processor")
    call = CALLS[name].format(**NUMBERS[os.uname().machine])
    program = f"import ctypes; libc = ctypes.CDLL(None, use_errno=True); r = {call}; print(r, ctypes.get_errno())"
    assert py(box, program).stdout == b"-1 1\n"


def test_ordinary_programs_start_threads_and_children(box):
    program = (
        "import threading, subprocess, multiprocessing, socket\n"
        "t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')\n"
        "a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9).decode())"
    )
    assert py(box, program).stdout == b"thread\nchild\npair\n"


def test_no_nested_namespaces_and_no_clock(box):
    assert outside("unshare", "--help").returncode == 0
    assert b"not permitted" in sh(box, "unshare -U true").stderr
    assert b"not permitted" in sh(box, "date -s @1").stderr


# --- staying alive, and eating the machine ---------------------------------------------------------------------


@pytest.mark.parametrize("bomb", ["f() { f | f & }; f; sleep 20", "while :; do sleep 20 & done"])
def test_fork_bombs_end_at_the_deadline(box, bomb, standing):
    result = sh(box, bomb, timeout_s=1)
    assert result.exit_code is None or b"fork" in result.stderr.lower()
    assert result.seconds < 10
    assert int(sh(box, "ls -d /proc/[0-9]* | wc -l").stdout) - standing in (2, 3)


def test_the_number_of_processes_is_bounded(box):
    program = (
        "import os, time\nn = 0\n"
        "try:\n    while n < 500:\n        if os.fork() == 0: time.sleep(30)\n        n += 1\n"
        "except BlockingIOError: print(n, flush=True)\nos._exit(0)"
    )
    assert 20 <= int(py(box, program).stdout) <= 48


DAEMON = "setsid sh -c 'sleep {0}; echo late >> late' {1} & {2}"


@pytest.mark.parametrize("streams", ["", "> /dev/null 2>&1 < /dev/null"])
def test_daemons_die_with_the_command(box, streams):
    result = sh(box, DAEMON.format(0.2, streams, "echo done"))
    assert (result.exit_code, result.stdout) == (0, b"done\n")
    assert result.seconds < 5
    assert sh(box, "sleep 0.5; ls").stdout == b""
    assert sh(box, DAEMON.format(0.2, streams, "sleep 0.6; ls")).stdout == b"late\n"  # the control: it does write


def test_ignoring_signals_does_not_help(box):
    result = sh(box, "trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep 30\" & sleep 30", timeout_s=0.5)
    assert result.stopped == "timeout" and result.seconds < 5


def test_killing_everything_kills_only_the_box(box):
    assert sh(box, "kill -9 -1; echo alive").exit_code in (0, 137)
    assert sh(box, "kill -9 1; echo alive").stdout == b"alive\n"
    assert sh(box, "echo next").stdout == b"next\n"


def test_the_first_process_cannot_be_taken_over(box):
    program = "import os; m = os.open('/proc/1/mem', os.O_RDWR); os.pwrite(m, b'\\xcc' * 64, {})"
    assert py(box, program.format(0)).exit_code == 1  # nothing is mapped there: the control is the next line's start
    start = "int(open('/proc/1/maps').readline().split('-')[0], 16)"
    py(box, program.format(start))
    assert sh(box, "echo next").stdout == b"next\n"


@pytest.mark.parametrize(
    "command", ["cat", "python3", "less /etc/passwd", "cat < /dev/tty", "read x", "git commit", "sh"]
)
def test_waiting_for_a_person_ends_at_once(box, command):
    assert sh(box, command, timeout_s=8).stopped == ""


def test_hostile_output_arrives_as_bytes(box):
    said = b"\0\x1b]0;title\x07\xff\xfe\xe2\x80\xae"
    assert py(box, f"import os; os.write(1, {said!r})").stdout == said


# --- handing in something that is not a file -------------------------------------------------------------------

VERIFY = """
import json
key, refused = json.load(open("key.json")), json.load(open("refused.json"))
def pairs(items):
    if len(dict(items)) < len(items): raise ValueError("twice")
    return dict(items)
def reason(name):
    if "out.json" in refused: return refused["out.json"]
    try: found = json.loads(open("work/out.json", "rb").read().decode(), object_pairs_hook=pairs)
    except FileNotFoundError: return "missing"
    except OSError: return "not_regular"
    except (ValueError, RecursionError): return "not_json"
    if not isinstance(found, dict) or name not in found: return "missing"
    if type(found[name]) is not type(key[name]): return "wrong_type"
    return None if found[name] == key[name] else "wrong_value"
print(json.dumps({"fields": {name: reason(name) for name in key}}))
"""
NAIVE = "import json; print(json.load(open('out.json')) == json.load(open({key!r})))"


def task(program: str = VERIFY, key: str = KEY, timeout_s: float = 10.0) -> Task:
    card = Card("capability", "c", "analysis", "d", 0, "json", 0, "l")
    return Task("t", "do", Workspace(), Verifier(program, key, timeout_s), Contract((), ()), card)


def graded(boxes, box, line: str) -> str:
    """The reason that the total is wrong after a command, empty where it is right."""
    result = sh(box, line)
    assert result.exit_code == 0, result
    verdict = SandboxGrader(boxes, file_size=1_000_000)(task(), box.snapshot())
    assert [field.name for field in verdict.fields] == ["total"]
    assert verdict.passed is verdict.fields[0].passed
    return verdict.fields[0].reason


HAND_INS = {
    "right": ("""echo '{"total": 4}' > out.json""", ""),
    "hard link": ("""echo '{"total": 4}' > a; ln a out.json""", ""),
    "nothing": ("true", "missing"),
    "wrong": ("""echo '{"total": 5}' > out.json""", "wrong_value"),
    "text": ("""echo '{"total": "4"}' > out.json""", "wrong_type"),
    "link to the key": ("ln -s ../key.json out.json", "link"),
    "link within": ("""echo '{"total": 4}' > a; ln -s a out.json""", "link"),
    "endless link": ("ln -s /dev/zero out.json", "link"),
    "fifo": ("mkfifo out.json", "fifo"),
    "directory": ("mkdir out.json", "not_regular"),
    "socket": ("python3 -c 'import socket; socket.socket(1).bind(\"out.json\")'", "socket"),
    "huge": ("head -c 1048576 /dev/zero > out.json", "too_large"),
    "sparse": ("truncate -s 16000000 out.json", "too_large"),
    "empty": (": > out.json", "not_json"),
    "not UTF-8": ("printf '\\377\\376' > out.json", "not_json"),
    "UTF-16": ("""python3 -c 'open("out.json","wb").write(chr(123).encode("utf-16"))'""", "not_json"),
    "deep": ("""python3 -c 'open("out.json","w").write("["*200000)'""", "not_json"),
    "long number": ("""python3 -c 'open("out.json","w").write("9"*100000)'""", "not_json"),
    "twice": ("""echo '{"total": 5, "total": 4}' > out.json""", "not_json"),
    "not a number": ("""echo '{"total": NaN}' > out.json""", "wrong_type"),
}


@pytest.mark.parametrize("name", sorted(HAND_INS))
def test_hand_ins_are_graded_and_crash_nothing(boxes, name):
    line, reason = HAND_INS[name]
    with boxes.open(Workspace(), Limits(file_size=16_000_000)) as box:
        assert graded(boxes, box, line) == reason


def test_the_box_itself_refuses_files_over_its_limit(boxes):
    with boxes.open(Workspace(), Limits(file_size=1 << 20)) as box:
        assert sh(box, "head -c 2000000 /dev/zero > out.json").exit_code == 153  # SIGXFSZ
        assert len(box.snapshot().files["out.json"]) == 1 << 20
    with boxes.open(Workspace({"out.json": b"x" * 2000}), Limits(file_size=1000)) as box:
        assert box.snapshot().refused == {"out.json": "too_large"}


def test_a_naive_reader_is_fooled_by_a_link(tmp_path):
    """The control of the link attacks: where nobody looks, the key passes for the answer."""
    (tmp_path / "key.json").write_text(KEY)
    work = tmp_path / "work"
    work.mkdir()
    (work / "out.json").symlink_to(tmp_path / "key.json")
    program = NAIVE.format(key=str(tmp_path / "key.json"))
    assert outside(sys.executable, "-I", "-c", program, cwd=work).stdout == b"True\n"


def test_links_in_the_middle_of_a_path(boxes, box):
    assert sh(box, "mkdir real; echo 1 > real/x; ln -s real d; ln -s /etc e").exit_code == 0
    snapshot = box.snapshot()
    assert dict(snapshot.files) == {"real/x": b"1\n"} and dict(snapshot.refused) == {"d": "link", "e": "link"}
    for path in ("d/x", "e/passwd"):
        with pytest.raises(OSError):
            box.read(path, 100)
        with pytest.raises(ValueError, match="cannot write"):
            box.write(path, b"2")
    assert box.read("real/x", 100) == b"1\n"


def test_reading_a_fifo_does_not_block(box):
    assert sh(box, "mkfifo f").exit_code == 0
    done = threading.Event()

    def read() -> None:
        with pytest.raises(OSError, match="fifo"):
            box.read("f", 10)
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(5)


# --- forging the verdict ---------------------------------------------------------------------------------------

FORGED = 'import os\nos.write(1, b\'{"fields": {"total": null}}\\n\')\nos._exit(0)\n'
PLACES = [
    "json.py",
    "sitecustomize.py",
    "usercustomize.py",
    "conftest.py",
    "json/__init__.py",
    ".local/lib/python3.11/site-packages/usercustomize.py",
    "work/json.py",
]


@pytest.mark.parametrize("place", PLACES)
def test_the_agents_modules_are_not_imported(boxes, box, place):
    box.write(place, FORGED.encode())
    box.write(".local/lib/python3.11/site-packages/a.pth", b"import os; os._exit(0)\n")
    assert graded(boxes, box, "echo '{\"total\": 5}' > out.json") == "wrong_value"


def test_a_naive_verifier_is_forged_by_a_module(tmp_path):
    """The control: the same module beside a script that python3 starts without -I prints the verdict."""
    (tmp_path / "json.py").write_text(FORGED)
    (tmp_path / "verify.py").write_text("import json\nprint('honest')\n")
    assert outside(sys.executable, "verify.py", cwd=tmp_path).stdout == b'{"fields": {"total": null}}\n'
    assert outside(sys.executable, "-I", "-S", "-B", "verify.py", cwd=tmp_path).stdout == b"honest\n"


def test_the_agents_configuration_is_not_run(boxes, box):
    lines = [
        "mkdir -p .git; printf '[core]\\n\\tfsmonitor = touch ran\\n' > .git/config",
        "echo 'touch ran' > .bash_profile; cp .bash_profile .profile; cp .bash_profile .bashrc",
        "echo '.shell touch ran' > .sqliterc; echo '{\"total\": 4}' > out.json",
    ]
    assert graded(boxes, box, "; ".join(lines)) == ""
    program = "import json, os; print(json.dumps({'fields': {'ran': 'ran' if os.path.exists('work/ran') else None}}))"
    assert SandboxGrader(boxes)(task(program), box.snapshot()).passed


def test_a_verdict_written_by_the_agent_has_no_effect(boxes, box):
    forged = '{"fields": {"total": null}}'
    files = {
        "verdict.json": forged,
        "reward.json": forged,
        "verify.py": "print(1)",
        "key.json": "{}",
        "refused.json": "{}",
    }
    line = "; ".join(f"echo '{text}' > {name}" for name, text in files.items())
    assert graded(boxes, box, line) == "missing"


def test_the_verifier_has_no_network_and_no_agent_processes(boxes, standing):
    program = (
        "import json, os, socket\n"
        "n = sum(p.isdigit() for p in os.listdir('/proc'))\n"
        "try: socket.create_connection(('192.0.2.1', 9), 2); net = 'reached'\n"
        "except OSError: net = None\n"
        f"print(json.dumps({{'fields': {{'net': net, 'alone': None if n == {standing + 1} else str(n)}}}}))"
    )
    assert SandboxGrader(boxes)(task(program), Snapshot({})).passed


def test_the_verifier_sees_folders_and_what_was_refused(boxes, box):
    assert sh(box, "mkdir -p old/empty new; mv old kept; echo 1 > new/f; ln -s new l").exit_code == 0
    program = (
        "import json, os\n"
        "said = [json.load(open(name)) for name in ('directories.json', 'refused.json')]\n"
        "seen = sorted(d for d, _, _ in os.walk('work')), *said\n"
        "folders = ['kept', 'kept/empty', 'new']\n"
        "right = seen == (['work', *('work/' + f for f in folders)], folders, {'l': 'link'})\n"
        "print(json.dumps({'fields': {'seen': None if right else repr(seen)}}))"
    )
    verdict = SandboxGrader(boxes)(task(program), box.snapshot())
    assert verdict.passed, verdict
    bare = "import json, os; print(json.dumps({'fields': {'x': None if os.listdir('work') == [] else 'no'}}))"
    assert SandboxGrader(boxes)(task(bare), Snapshot({})).passed


def test_fields_stand_as_printed_and_nothing_is_no_pass(boxes):
    grade = SandboxGrader(boxes)
    verdict = grade(task('print(\'{"fields": {"b": null, "a": "missing"}}\')'), Snapshot({}))
    assert verdict.fields == (FieldResult("b", True), FieldResult("a", False, "missing")) and not verdict.passed
    assert not grade(task("print('{\"fields\": {}}')"), Snapshot({})).passed


BROKEN = {
    "crash": ("raise KeyError('oops')", "ended with code 1: KeyError: 'oops'"),
    "silent": ("pass", "printed no JSON object"),
    "rc 0 at once": ("import os; os._exit(0)", "printed no JSON object"),
    "nonsense": ("print('all good')", "printed no JSON object"),
    "two objects": ('print(\'{"fields": {"a": null}}\' * 2)', "printed no JSON object"),
    "not an object": ("print('[]')", "must print"),
    "another key": ('print(\'{"fields": {"a": null}, "reward": 1}\')', "must print"),
    "true": ('print(\'{"fields": {"a": true}}\')', "must print"),
    "empty reason": ('print(\'{"fields": {"a": ""}}\')', "must print"),
    "twice": ('print(\'{"fields": {"a": "x", "a": null}}\')', "appears twice"),
    "deep": ("print('[' * 100000)", "printed no JSON object"),
    "code": ("import sys; print('{\"fields\": {\"a\": null}}'); sys.exit('why')", "ended with code 1: why"),
    "hang": ("import time; time.sleep(30)", r"was stopped \(timeout\)"),
    "flood": ("while True: print('x' * 1000)", r"was stopped \(output\)"),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_verifier_is_a_grader_error(boxes, name):
    program, message = BROKEN[name]
    with pytest.raises(GraderError, match=message):
        SandboxGrader(boxes)(task(program, timeout_s=1.5), Snapshot({}))


def test_the_biggest_snapshot_can_be_graded(boxes):
    files = {f"{'d/' * 31}{i}": b"x" * (8 << 20) for i in range(8)}
    program = (
        "import json, os\nn = sum(len(f) for _, _, f in os.walk('work'))\n"
        "print(json.dumps({'fields': {'n': None if n == 8 else str(n)}}))"
    )
    assert SandboxGrader(boxes, Limits(workspace=1 << 20, workspace_files=10))(task(program), Snapshot(files)).passed
