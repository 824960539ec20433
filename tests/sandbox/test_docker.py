"""Limits, lifecycle, faults and clean-up of boxes that are containers."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker import owner as owners
from clawloop.sandbox.docker.container import Container, Shape, check_held
from clawloop.sandbox.docker.docker import Docker
from clawloop.types import Limits, Workspace

docker = pytest.mark.docker
SHAPE = Shape(512 << 20, 64, 64 << 20, 4096, 32 << 20, 1.0)
HELD = (
    "memory=536870912 processes=64 quota=100000 period=100000 "
    "capabilities=0000000000000020 no_new_privileges=1 seccomp=2 root=ro"
)


@pytest.fixture(scope="module")
def boxes(docker_engine):
    boxes = Docker(warm=0)
    yield boxes
    boxes.close()


def sh(box, line, **options):
    return box.run(["/bin/sh", "-c", line], **options)


def containers(boxes) -> list[dict]:
    """The containers of this process, dead or alive."""
    return boxes.engine.api.containers(all=True, filters={"label": f"{owners.LABEL}={owners.owner()}"})


def gone(boxes, container: str, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not boxes.engine.api.containers(all=True, filters={"id": container}):
            return True
        time.sleep(0.05)
    return False


# --- what is held ----------------------------------------------------------------------------------------------


@docker
def test_an_agent_has_no_capabilities_and_cannot_get_any(boxes):
    with boxes.open(Workspace()) as box:
        said = dict(line.split(":\t", 1) for line in sh(box, "cat /proc/self/status").stdout.decode().splitlines())
        assert {said[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
        assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
        assert b"not permitted" in sh(box, "kill -9 1").stderr.lower()


@docker
def test_the_limits_are_in_the_kernels_files(boxes):
    limits = Limits(memory=100 << 20, processes=40, workspace=1 << 20, tmp=1 << 20, file_size=1 << 20)
    with boxes.open(Workspace(), limits) as box:
        [found] = containers(boxes)
        held = boxes.engine.api.inspect_container(found["Id"])["HostConfig"]
        assert (held["Memory"], held["MemorySwap"], held["PidsLimit"]) == (100 << 20, 100 << 20, 40)
        spin = "import time, os; t = time.monotonic() + 1.5; os.fork()\nwhile time.monotonic() < t: pass\n"
        spin += "print(os.times().user)"
        used = sum(map(float, box.run(["python3", "-c", spin]).stdout.split()))
        assert used < 2.2  # two at once on one processor; without the limit they would come to 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("memory=536870912", "memory=9223372036854771712"), "memory is 9223372036854771712, not 536870912"),
        (("memory=536870912", "memory=max"), "memory is max, not 536870912"),
        (("memory=536870912 ", ""), "memory is None"),
        (("processes=64", "processes=max"), "processes is max, not 64"),
        (("quota=100000", "quota=-1"), "cpus is unlimited, not 1"),
        (("quota=100000 period=100000", "quota=max/100000 period=none"), "cpus is unlimited, not 1"),
        (("capabilities=0000000000000020", "capabilities=00000000a80425fb"), "capabilities is 00000000a80425fb"),
        (("seccomp=2", "seccomp=0"), "seccomp is 0, not 2"),
        (("root=ro", "root=rw"), "root is rw, not ro"),
    ],
)
def test_an_engine_that_ignores_a_limit_is_refused(change, said):
    """Each line is what the keeper would read where that one limit, capability or filter is not held."""
    check_held(HELD, SHAPE)
    check_held(HELD.replace("quota=100000 period=100000", "quota=100000/100000 period=none"), SHAPE)
    with pytest.raises(InfrastructureError, match=rf"{said}.*Rootless engines ignore limits"):
        check_held(HELD.replace(*change), SHAPE)


@docker
def test_an_engine_that_drops_an_option_is_caught(boxes, monkeypatch):
    real = boxes.engine.api.create_host_config
    monkeypatch.setattr(
        boxes.engine.api,
        "create_host_config",
        lambda **options: real(**options | {"mem_limit": None, "memswap_limit": None}),
    )
    with pytest.raises(InfrastructureError, match="memory is"), boxes.open(Workspace()):
        pytest.fail("opened")
    assert containers(boxes) == []


# --- every process dead ----------------------------------------------------------------------------------------

OUTLIVE = "(setsid sh -c 'while :; do sleep 0.2; date > late; done' > /dev/null 2>&1 < /dev/null &); sleep 0.5; {}"
ESCAPES = {
    "kill the parent": "kill -9 $PPID; sleep 9",
    "stop the parent": "kill -STOP $PPID; exit 0",
    "kill in a loop": "while :; do kill -9 -1; done",
    "overwrite the parent": 'python3 -c \'import os; [os.pwrite(os.open(f"/proc/{os.getppid()}/mem", 2), bytes(4096), '
    'int(l.split("-")[0], 16)) for l in open(f"/proc/{os.getppid()}/maps") if "r-xp" in l and "[v" not in l]\'',
}


@docker
@pytest.mark.parametrize("name", sorted(ESCAPES))
def test_nothing_outlives_a_command_whatever_becomes_of_its_shell(boxes, name):
    with boxes.open(Workspace()) as box:
        assert sh(box, OUTLIVE.format("ls")).stdout == b"late\n"  # the control: it does write
        result = sh(box, OUTLIVE.format(ESCAPES[name]), timeout_s=3)
        assert result.seconds < 8
        assert sh(box, "rm -f late; sleep 0.6; ls").stdout == b""


@docker
def test_orphans_are_reaped(boxes):
    with boxes.open(Workspace()) as box:
        line = "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 0.1 &); done; sleep 0.5; cat /proc/[0-9]*/stat"
        states = [line.rpartition(b")")[2].split()[0] for line in sh(box, line).stdout.splitlines()]
        assert len(states) > 2 and b"Z" not in states


@docker
def test_scratch_that_resists_is_emptied(boxes):
    with boxes.open(Workspace()) as box:
        assert (
            sh(
                box, "mkdir -p /tmp/a/b /dev/shm/c; echo 1 > /tmp/a/b/x; echo > /tmp/.h; chmod 000 /tmp/a/b /tmp/a"
            ).exit_code
            == 0
        )
        assert sh(box, "ls -A /tmp /dev/shm").stdout == b"/dev/shm:\n\n/tmp:\n"


@docker
def test_files_that_fill_what_they_may_can_still_be_taken(boxes):
    """The files of a box lie in its memory, and so do its keeper and what carries them out."""
    limits = Limits(memory=32 << 20, workspace=64 << 20, file_size=16 << 20)
    fill = "for i in 1 2 3 4 5; do head -c 16000000 /dev/zero > $i; head -c 16000000 /dev/zero > {}/$i; done"
    with boxes.open(Workspace(), limits) as box:
        sh(box, fill.format("/tmp"))
        sh(box, fill.format("/dev/shm"))
        assert len(box.snapshot().files) >= 4
        assert sh(box, "rm *; echo fine").stdout == b"fine\n"
    many = {f"{i}": bytes(8 << 20) for i in range(15)}
    with boxes.open(Workspace(many), Limits(memory=64 << 20, workspace=128 << 20)) as box:
        assert sh(box, "ls | wc -l").stdout == b"15\n"
        assert len(box.snapshot().files) == 15


# --- nothing left ----------------------------------------------------------------------------------------------


DEEP = "import os\nfor _ in range(1100): os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0); print('made')"


@docker
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_box_is_gone_with_its_volume_also_after_an_error(boxes, on_disk):
    api = boxes.engine.api
    before = len(api.volumes()["Volumes"] or ())
    with pytest.raises(KeyError), boxes.open(Workspace({"a/b": b"1"}), on_disk=on_disk) as box:  # noqa: PT012
        assert box.run(["python3", "-c", DEEP]).stdout == b"made\n"
        assert box.snapshot().refused
        assert len(containers(boxes)) == 1 and len(api.volumes()["Volumes"] or ()) == before + on_disk
        {}["from the caller"]
    with pytest.raises(ValueError), boxes.open(Workspace({"ok": b"", "../no": b""})):
        pytest.fail("opened")
    assert containers(boxes) == [] and len(api.volumes()["Volumes"] or ()) == before


@docker
def test_thirty_two_boxes_at_once(docker_engine):
    boxes = Docker(warm=4)

    def one(i: int) -> bytes:
        with boxes.open(Workspace({f"own{i}": b""})) as box:
            return box.run(
                ["python3", "-c", "import os; print(sum(range(10000)), os.listdir('.'))"], timeout_s=100
            ).stdout

    with ThreadPoolExecutor(32) as pool:
        said = list(pool.map(one, range(32)))
    assert said == [f"49995000 ['own{i}']\n".encode() for i in range(32)]
    boxes.close()
    assert containers(boxes) == []


@docker
def test_the_pool_hides_the_start_and_serves_none_twice(docker_engine):
    boxes = Docker(warm=2)
    seen = set()
    for _ in range(4):
        with boxes.open(Workspace()) as box:
            [new] = {found["Id"] for found in containers(boxes) if found["Id"] == box._container.id}
            assert new not in seen and sh(box, "ls -A").stdout == b""
            seen.add(new)
    [waiting] = boxes._pool._shelves.values()
    doomed = waiting[0].result().id
    boxes.engine.api.kill(doomed)
    assert gone(boxes, doomed)
    with boxes.open(Workspace()) as box:  # one that died while it waited is not handed out
        assert sh(box, "echo fine").stdout == b"fine\n"
    boxes.close()
    assert containers(boxes) == []


@docker
def test_death_of_the_caller_is_death_of_its_boxes(boxes):
    program = (
        "from clawloop.sandbox.docker.docker import Docker\nfrom clawloop.types import Workspace\n"
        "boxes = Docker(warm=1)\nwith boxes.open(Workspace()) as box:\n"
        "    print(box._container.id, flush=True); box.run(['sleep', '300'], timeout_s=300)"
    )
    top = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=top)
    assert child.stdout is not None
    with child.stdout:
        container = child.stdout.readline().strip()
    assert boxes.engine.api.inspect_container(container)["State"]["Running"]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert gone(boxes, container)


@docker
def test_what_a_killed_caller_left_is_swept_at_the_next_start(boxes):
    """A container that was made and not started when its owner died has no first process that could end it."""
    dead = subprocess.run([sys.executable, "-c", OWNER], capture_output=True, text=True, check=True).stdout.strip()
    api = boxes.engine.api
    left = api.create_container(boxes.engine.image, ["sleep", "1"], labels={owners.LABEL: dead})["Id"]
    other = dead.replace("/", "0/", 1)
    elsewhere = api.create_container(boxes.engine.image, ["sleep", "60"], labels={owners.LABEL: other})["Id"]
    api.start(elsewhere)
    try:
        with boxes.open(Workspace()) as box:
            Docker(warm=0).close()
            assert gone(boxes, left, 1) and not gone(boxes, elsewhere, 0.2)
            assert sh(box, "echo mine").stdout == b"mine\n"
    finally:
        api.remove_container(elsewhere, force=True)


OWNER = "from clawloop.sandbox.docker.owner import owner; print(owner())"

# --- faults ----------------------------------------------------------------------------------------------------


@docker
def test_death_of_the_first_process_is_no_verdict_on_the_agent(boxes):
    with boxes.open(Workspace()) as box:
        threading.Timer(0.7, boxes.engine.api.kill, [box._container.id]).start()
        with pytest.raises(InfrastructureError, match="died"):
            sh(box, "sleep 20")
        with pytest.raises(InfrastructureError):
            box.snapshot()
    assert containers(boxes) == []


@docker
def test_death_of_the_engine_is_no_verdict_on_the_agent(own_engine):
    boxes = Docker(host=own_engine.start(), warm=1)
    with boxes.open(Workspace()) as box:
        threading.Timer(1.0, own_engine.kill).start()
        start = time.monotonic()
        with pytest.raises(InfrastructureError, match="Docker engine at"):
            sh(box, "sleep 60", timeout_s=60)
        with pytest.raises(InfrastructureError):
            box.snapshot()
    boxes.close()
    assert time.monotonic() - start < 30
    again = Docker(host=own_engine.start(), warm=0)
    assert again.engine.api.containers(all=True) == []
    with again.open(Workspace()) as box:
        assert sh(box, "echo fine").stdout == b"fine\n"
    again.close()


@contextmanager
def engine_of_silence(folder: Path, answers: bytes = b""):
    """A socket that accepts, sends `answers` to each, and says nothing more."""
    path = folder / "silent.sock"
    kept = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def accept() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                kept.append(one)
                if answers:
                    one.sendall(answers)

        threading.Thread(target=accept, daemon=True).start()
        yield f"unix://{path}"
    for one in kept:
        one.close()


def test_an_engine_that_hangs_is_given_up_in_bounded_time(tmp_path):
    start = time.monotonic()
    with engine_of_silence(tmp_path) as address, pytest.raises(InfrastructureError, match="did not say what it is"):
        Docker(host=address, answer_s=0.5)
    assert time.monotonic() - start < 5


def test_an_engine_that_talks_nonsense_is_refused_in_words(tmp_path):
    with (
        engine_of_silence(tmp_path, b"HTTP/1.1 500 Broken\r\nContent-Length: 2\r\n\r\nno") as address,
        pytest.raises(InfrastructureError, match="did not say what it is"),
    ):
        Docker(host=address, answer_s=1)


def test_podman_is_refused_in_words(tmp_path):
    """The answer is that of podman 4.3.1, cut to what is read."""
    about = b'{"Components":[{"Name":"Podman Engine","Version":"4.3.1"}],"Version":"4.3.1"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(about) + about
    with (
        engine_of_silence(tmp_path, answer) as address,
        pytest.raises(InfrastructureError, match=r"podman.*use Docker"),
    ):
        Docker(host=address, answer_s=2)


def test_no_engine_at_all(tmp_path):
    with pytest.raises(InfrastructureError, match=r"the Docker engine at unix://.*nothing.sock did not"):
        Docker(host=f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(InfrastructureError, match="must be at a unix:// address"):
        Docker(host="tcp://127.0.0.1:2375")


@docker
def test_an_image_with_agents_in_it_has_them_where_the_mount_would_be(boxes, tmp_path):
    agent = tmp_path / "bin" / "agent"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\necho here\n")
    agent.chmod(0o755)
    recipe = files("clawloop.sandbox.docker") / "image" / "clis.Dockerfile"
    api, image = boxes.engine.api, "clawloop-sandbox-clis:test"
    given = {"dockerfile": str(recipe), "buildargs": {"BASE": boxes.engine.image}, "rm": True}
    assert not any(b"error" in line for line in api.build(str(tmp_path), image, **given))
    try:
        with_agents = Docker(image=image, warm=0)
        with with_agents.open(Workspace()) as box:
            assert box.run(["/opt/clis/bin/agent"]).stdout == b"here\n"
        with_agents.close()
    finally:
        api.remove_image(image, force=True)


@docker
def test_a_missing_image_says_how_to_make_it(docker_engine):
    with pytest.raises(InfrastructureError, match=r"no image clawloop-none:1: run `docker build -t clawloop-none:1 /"):
        Docker(image="clawloop-none:1")


@docker
def test_an_engine_that_stops_answering_in_mid_episode(boxes, tmp_path):
    with boxes.open(Workspace()) as box, engine_of_silence(tmp_path) as address:
        real, box._container.engine.address = boxes.engine.address, address
        try:
            boxes.engine._answer_s = 0.5
            with pytest.raises(InfrastructureError, match="did not open a stream"):
                sh(box, "true")
        finally:
            boxes.engine.address, boxes.engine._answer_s = real, 60.0


def test_the_profile_refuses_what_the_filter_refuses():
    from clawloop.sandbox.seccomp import _DENIED, deny_profile

    profile = json.loads(deny_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert set(_DENIED) <= {name for rule in profile["syscalls"] if not rule["args"] for name in rule["names"]}
    assert all(rule["action"] == "SCMP_ACT_ERRNO" and rule["errnoRet"] in (1, 38) for rule in profile["syscalls"])


@docker
def test_a_container_that_cannot_be_made_leaves_nothing(boxes):
    with pytest.raises(InfrastructureError, match="did not make a container"):
        Container(boxes.engine, Shape(1, 64, 1 << 20, 100, 1 << 20, 1.0))
    assert containers(boxes) == []
