"""Every harness of conf/harness in every sandbox and protocol that it speaks, with a policy that says what it is told.

What comes out is docs/matrix.md, which `--write-matrix` writes anew for the cells that ran.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any

import pytest
import yaml

from clawloop import __version__
from clawloop.build.part import part
from clawloop.build.players import arena
from clawloop.config.folders import data_dir, options
from clawloop.config.spine import register
from clawloop.protocols import InfrastructureError, Sandboxes
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.types import (
    Completion,
    Outcome,
    Request,
    Rollout,
    Stop,
)
from tests.agent import PROGRAM, agent
from tests.counting import TASK as COUNT

TOP = Path(__file__).parents[2]
INSTALL = TOP / "scripts" / "install_clis.sh"
PINS = dict(re.findall(r"^    (\w+):\S+@([\d.]+)$", INSTALL.read_text(), re.M))
PINS |= {"mini_swe": re.findall(r"mini-swe-agent==([\d.]+)", INSTALL.read_text())[0]}
SANDBOXES = options("sandbox")
NATIVE = "none"
PROTOCOLS = ("chat", "responses", "messages", "gemini")
SPOKEN = {  # the settings with which a program speaks a protocol; the first is that of its yaml
    "command": {one: [] for one in PROTOCOLS},
    "pi": {
        "chat": [],
        "responses": ["harness.pi.words.api=openai-responses"],
        "messages": ["harness.pi.words.api=anthropic-messages", "harness.pi.words.base=$url"],
        "gemini": ["harness.pi.words.api=google-generative-ai", "harness.pi.words.base=$url/v1beta"],
    },
    "qwen": {
        "chat": [],
        "responses": ["harness.qwen.words.api=openai-responses"],
        "messages": ["harness.qwen.words.api=anthropic"],
        "gemini": ["harness.qwen.words.api=gemini"],
    },
    "opencode": {
        "chat": [],
        "responses": ["harness.opencode.words.package='@ai-sdk/openai'"],
        "messages": ["harness.opencode.words.package='@ai-sdk/anthropic'"],
        "gemini": ["harness.opencode.words.package='@ai-sdk/google'", "harness.opencode.words.base=$url/v1beta"],
    },
    "openclaw": {
        "responses": [],
        "chat": ["harness.openclaw.words.api=openai-completions"],
        "messages": ["harness.openclaw.words.api=anthropic-messages", "harness.openclaw.words.base=$url"],
        "gemini": ["harness.openclaw.words.api=google-generative-ai", "harness.openclaw.words.base=$url/v1beta"],
    },
    "mini_swe": {
        "chat": [],
        "responses": ["harness.mini_swe.words.class=litellm_response"],
        "messages": ["harness.mini_swe.words.provider=anthropic", "harness.mini_swe.words.base=$url"],
        "gemini": ["harness.mini_swe.words.provider=gemini", "harness.mini_swe.words.base=$url/v1beta"],
    },
    "codex": {"responses": []},
    "gemini": {"gemini": []},
}
STARTS_S = {"command": 3.0, "openclaw": 40.0}  # what starting takes at most, where nobody else is busy; 10 for others
ENDS = {"mini_swe": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}  # what ends an episode, where a plain reply does not
MARK = f"ticket {os.getpid()}"
TASK = replace(COUNT, instruction=f"a.txt has two lines. Count its lines into n.txt. ({MARK})")
WORK = "wc -l < a.txt > n.txt"
Saying = Callable[[Request, int], str]


class Says:
    """The n-th saying answers the n-th request, the last all that follow."""

    version = "told"

    def __init__(self, *sayings: Saying) -> None:
        self.sayings, self.asked = sayings, 0

    def complete(self, request: Request) -> Completion:
        n, self.asked = self.asked, self.asked + 1
        text = self.sayings[min(n, len(self.sayings) - 1)](request, n)
        prompt = tuple(
            i for m in request.messages for i in (m.ids if m.ids is not None else (*m.content.encode(), 256))
        )
        ids = (*text.encode(), 256)
        return Completion(text, prompt, ids, (0.0,) * len(ids), "stop")


def call(command: str, **other: Any) -> Saying:
    """A call of the shell tool, whatever it is called."""

    def say(request: Request, n: int) -> str:
        for tool in request.tools:
            for name in {"command", "cmd"} & set(json.loads(tool.parameters).get("properties", {})):
                arguments = {name: command.replace("{n}", str(n))} | (
                    {"description": "Works."} if name == "command" else {}
                )
                return f"<tool_call>{json.dumps({'name': tool.name, 'arguments': other or arguments})}</tool_call>"
        return "There is no shell."

    return say


def says(text: str) -> Saying:
    return lambda request, n: text.replace("{n}", str(n))


def breaks(request: Request, n: int) -> str:
    raise InfrastructureError("the engine is gone")


@cache
def chosen(harness: str, *settings: str, folder: Path | None = None) -> dict[str, Any]:
    """A harness as conf/ has it, or a folder of one's own."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    register()
    sizes = ["budget.reply_tokens=1000", "max_tokens=128000", "budget.command_s=10.0"]
    own = [f"hydra.searchpath=[file://{folder}]"] if folder else []
    with initialize_config_dir(str(data_dir("conf")), version_base="1.3"):
        words = ["+experiment=main", "scale=debug", f"harness=[{harness}]", *sizes, *own, *settings]
        found: Any = OmegaConf.to_container(compose("config", words).harness[harness], resolve=True)
    return found


@dataclass
class Stage:
    """One cell of the matrix, on which policies play, and how they say there what they mean."""

    harness: str
    protocol: str
    settings: dict[str, Any]
    sandbox: dict[str, Any]
    plain: Sandboxes

    def play(self, policy: Says, turns: int = 8, wall_s: float = 240.0) -> Rollout:
        bounds = {"turns": turns, "max_turns": turns, "wall_s": wall_s}
        settings = {name: bounds.get(name, value) for name, value in self.settings.items()}
        with ExitStack() as stack:
            harness, boxes = arena(settings, self.sandbox, self.plain, stack)
            rollout = Episode(harness, boxes, SandboxGrader(self.plain), retries=0)(policy, TASK, 0, 1)
            assert containers(boxes) == []
        return rollout

    def does(self, command: str) -> Saying:
        return says(part(self.settings).reply(command)) if self.native else call(command)

    @property
    def native(self) -> bool:
        return "command" not in self.settings

    @property
    def done(self) -> Saying:
        if self.native:
            return says(part(self.settings).reply(None))
        return call(ENDS[self.harness]) if self.harness in ENDS else says("done")


def containers(boxes: Any) -> list[Any]:
    """The containers of this process that no open box has, where boxes are such."""
    from clawloop.sandbox.docker.owner import LABEL, owner

    if not hasattr(boxes, "engine"):
        return []
    found: list[Any] = boxes.engine.api.containers(all=True, filters={"label": f"{LABEL}={owner()}"})
    return found


def cells(protocols: Callable[[str], list[str]]) -> list[Any]:
    """Every harness and sandbox, with some protocols of each harness."""
    found = []
    for cell in product(options("harness"), SANDBOXES):
        marks = [pytest.mark.docker] * (cell[1] == "docker") + [pytest.mark.cli] * (cell[0] in PINS)
        for protocol in protocols(cell[0]):
            whole = cell[0], protocol, cell[1]
            found.append(pytest.param(whole, marks=marks, id="-".join(whole)))
    return found


def spoken(harness: str) -> list[str]:
    return list(SPOKEN.get(harness, [NATIVE]))


def unspoken(harness: str) -> list[str]:
    return sorted({*PROTOCOLS} - {*SPOKEN.get(harness, PROTOCOLS)})


@pytest.fixture(scope="module")
def clis() -> str:
    done = subprocess.run([INSTALL], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the command line agents cannot be installed here: {done.stderr.strip()}")
    os.environ["CLAWLOOP_CLIS"] = done.stdout.strip()
    return done.stdout.strip()


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest) -> Callable[[str], tuple[dict[str, Any], Sandboxes]]:
    made: dict[str, tuple[dict[str, Any], Sandboxes]] = {}

    def make(name: str) -> tuple[dict[str, Any], Sandboxes]:
        if name not in made:
            settings = yaml.safe_load((data_dir("conf") / "sandbox" / f"{name}.yaml").read_text())
            if name == "docker":
                settings |= {"host": request.getfixturevalue("docker_engine"), "warm": 0}
            made[name] = settings, part(settings)
        return made[name]

    return make


@pytest.fixture
def stage(request: pytest.FixtureRequest, sandbox: Any, record_property: Any) -> Iterator[Stage]:
    harness, protocol, box = request.param
    if harness in PINS:
        request.getfixturevalue("clis")
    settings = chosen(harness, *SPOKEN.get(harness, {}).get(protocol, []))
    if harness == "command":
        settings = settings | agent(protocol)
    test = request.node.originalname
    record_property("cell", (*request.param, test, PINS.get(harness, __version__)))
    yield Stage(harness, protocol, settings, *sandbox(box))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            assert MARK.encode() not in path.read_bytes()


def stop(rollout: Rollout) -> Stop | None:
    return rollout.trajectory.stop if rollout.trajectory else None


@pytest.mark.parametrize("stage", cells(spoken), indirect=True)
def test_a_task_is_solved_and_every_call_recorded(stage: Stage) -> None:
    policy = Says(stage.does(WORK), stage.done)
    rollout = stage.play(policy)
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout
    assert rollout.trajectory is not None and len(rollout.trajectory.turns) == policy.asked == 2
    assert rollout.trajectory.turns[0].command == WORK


each = pytest.mark.parametrize("stage", cells(lambda harness: spoken(harness)[:1]), indirect=True)


@each
def test_a_policy_that_never_stops_is_out_of_turns(stage: Stage) -> None:
    rollout = stage.play(Says(stage.does("echo {n}")), turns=4)
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TURNS), rollout


@each
def test_a_policy_that_breaks_gives_no_reward(stage: Stage) -> None:
    rollout = stage.play(Says(stage.does(WORK), breaks))
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None), rollout
    assert "the engine is gone" in rollout.error


@each
def test_a_policy_that_stalls_is_out_of_time(stage: Stage) -> None:
    """A program is cut off, a harness in this process ends when it is answered; either waits for the late answer."""
    late = threading.Event()
    first_s = 0.3 if stage.native else STARTS_S.get(stage.harness, 10.0)
    try:
        for wall_s in (first_s, 180.0):  # a busy machine may take long to start a program
            patience_s = 1.0 if stage.native else wall_s + 10.0
            policy = Says(lambda request, n, s=patience_s: str(late.wait(s)))
            rollout = stage.play(policy, wall_s=wall_s)
            if policy.asked:
                break
    finally:
        late.set()
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TIME), rollout


@each
def test_malformed_calls_earn_nothing(stage: Stage) -> None:
    rollout = stage.play(Says(call("", nonsense=1), says('<tool_call>{"name": "bash", "argu')))
    assert rollout.reward == 0.0, rollout
    assert rollout.outcome in (Outcome.SCORED, Outcome.AGENT_FAILED)


@pytest.mark.parametrize("stage", cells(unspoken), indirect=True)
def test_a_protocol_that_a_program_does_not_speak_is_refused_by_it(stage: Stage, record_property: Any) -> None:
    """Codex and Gemini CLI are told to speak it in the only place that could say so, and refuse in their own words."""
    protocol, settings = stage.protocol, stage.settings
    if stage.harness == "codex":
        wanted = ["-c", f'model_providers.lab.wire_api="{protocol}"']
        stage.settings = settings | {"command": [*settings["command"][:-1], *wanted, settings["command"][-1]]}
    else:
        told = json.dumps({"security": {"auth": {"selectedType": protocol}}})
        stage.settings = settings | {"files": {".gemini/settings.json": told}}
    policy = Says(says("done"))
    rollout = stage.play(policy)
    assert (rollout.outcome, rollout.reward, policy.asked) == (Outcome.INFRASTRUCTURE_FAILED, None, 0), rollout
    [reason] = re.findall(
        rf"`wire_api = .{protocol}.` is no longer supported|unknown variant .{protocol}.|Invalid auth method selected",
        rollout.error,
    )
    record_property("refused", f"refused: {reason}")


def test_any_command_is_a_harness_by_the_yaml_of_the_documentation(
    sandbox: Any, command_line: Any, tmp_path: Path
) -> None:
    [written] = re.findall(r"^    mine:\n(?:     .*\n)+", (TOP / "docs" / "harnesses.md").read_text(), re.M)
    with TemporaryDirectory(dir="/var/tmp") as folder:  # boxes see what everyone may read
        Path(folder).chmod(0o755)
        agent = Path(folder) / "my-agent"
        agent.write_text("#!/usr/bin/env python3\n" + PROGRAM)
        agent.chmod(0o755)
        (tmp_path / "harness").mkdir()
        (tmp_path / "harness" / "mine.yaml").write_text(dedent(written).replace("/srv/mine", folder))
        code, out, _ = command_line("--config-dir", tmp_path, "+experiment=main", "harness=[mine]", "--cfg", "job")
        assert code == 0 and f"/opt/mine: {folder}" in out
        stage = Stage("mine", "chat", chosen("mine", folder=tmp_path), *sandbox("bubblewrap"))
        rollout = stage.play(Says(stage.does(WORK), stage.done))
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout


def test_the_table_holds_every_harness_at_its_version_and_nothing_that_failed(matrix: Any) -> None:
    cure = "write it anew: python -m pytest -m '' tests/harness/test_matrix.py --write-matrix"
    possible = {cell.values[0] for some in (spoken, unspoken) for cell in cells(some)}
    assert {harness for harness, _, _ in matrix.rows} == set(options("harness")), cure
    assert set(matrix.rows) <= possible, cure
    for cell, row in matrix.rows.items():
        assert row["version"] == PINS.get(cell[0], __version__), (cell, cure)
        assert "failed" not in row.values(), (cell, row)
