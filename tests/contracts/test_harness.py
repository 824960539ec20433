"""What every native harness of conf/harness must do, in real boxes and with a real verifier."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml

from clawloop.build.part import part
from clawloop.harness.play import Native
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import Agent, Demonstrable, InfrastructureError
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.ledger import decode, encode
from clawloop.types import (
    Card,
    Completion,
    Contract,
    Decision,
    Deliverable,
    Limits,
    Outcome,
    Request,
    Rollout,
    Stop,
    Task,
    Trajectory,
    Verifier,
    Workspace,
)

FILES = sorted((Path(__file__).parents[2] / "conf" / "harness").glob("*.yaml"))
CHECK = """
import json
from pathlib import Path
found = Path("work/sum.json")
total = json.loads(found.read_text()).get("total") if found.is_file() else None
print(json.dumps({"fields": {"total": None if total == json.load(open("key.json")) else "wrong_value"}}))
"""
TASK = Task(
    "t1",
    "Add up the column paid of fees.csv.",
    Workspace({"fees.csv": "name,paid\nÅsa,3\n王,4\n".encode()}),
    Verifier(CHECK, "7", 5.0),
    Contract((Decision("header", "it is no record"),), (Deliverable("sum.json", "json", {"total": "integer"}),)),
    Card("capability", "aggregate", "analysis", "clubs", 0, "json", 1, "l1"),
)
SOLUTION = (
    """awk -F, 'NR > 1 { s += $2 } END { printf "{\\"total\\": %d}\\n", s }' fees.csv > sum.json; """
    "echo über; cat fees.csv"
)
BOXES = Bubblewrap(Limits(wall_s=10.0))


def _native() -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings of those whose class runs in this process."""
    for path in FILES:
        settings = yaml.safe_load(path.read_text())[path.stem]
        if issubclass(resolve_name(settings["_target_"]), Native):
            yield path.stem, {name: value for name, value in settings.items() if "${" not in str(value)}


NATIVE = dict(_native())
Make = Callable[..., Any]


@pytest.fixture(params=NATIVE)
def make(request: pytest.FixtureRequest) -> Make:
    """The harness of a yaml, with other bounds."""
    small = {"max_turns": 4, "wall_s": 60.0, "command_s": 5.0, "observation_chars": 300, "max_tokens": 4096}
    return lambda **bounds: part(NATIVE[request.param] | small | bounds)


class Says:
    """An agent that says what it is told to, in order, and the last thing again; its tokens are numbered by place."""

    version = "told"

    def __init__(self, *replies: str, finish: str = "stop") -> None:
        self.replies, self.finish = replies, finish
        self.requests: list[Request] = []
        self.sampled: list[tuple[int, ...]] = []
        self._numbers = count()

    def complete(self, request: Request) -> Completion:
        text = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        prompt: tuple[int, ...] = ()
        for message in request.messages:
            prompt += message.ids if message.ids is not None else tuple(-1 - byte for byte in message.content.encode())
        ids = tuple(next(self._numbers) for _ in text.split(" "))
        self.sampled.append(ids)
        return Completion(text, prompt, ids, tuple(-0.5 - i for i in ids), self.finish)


def play(harness: Any, agent: Agent) -> Rollout:
    return Episode(harness, BOXES, SandboxGrader(BOXES))(agent, TASK, 0, 5)


def trajectory(harness: Any, agent: Agent) -> Trajectory:
    found = play(harness, agent).trajectory
    assert found is not None
    return found


def shown(agent: Says) -> list[str]:
    """What was said to the agent after each of its replies."""
    return ["\n".join(m.content for m in request.messages if m.ids is None) for request in agent.requests[1:]]


def test_there_are_harnesses_and_each_has_a_file() -> None:
    assert {"shell", "shell_brief", "tools", "xml", "react"} <= set(NATIVE)


def test_it_solves_a_task_that_a_real_verifier_grades(make: Make) -> None:
    harness = make()
    agent = ScriptedPolicy(
        [{"when": r"Add up the column (?P<c>\w+) of (?P<f>\S+)\.", "say": harness.reply(SOLUTION)}],
        slip=0.0,
        done=harness.reply(None),
    )
    rollout = play(harness, agent)
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout
    assert rollout.trajectory is not None
    assert (rollout.trajectory.harness, rollout.trajectory.stop) == (harness.name, Stop.SUBMITTED)
    first, last = rollout.trajectory.turns
    assert (first.command, first.exit_code) == (SOLUTION, 0)
    assert "über" in first.observation and "王,4" in first.observation
    assert (last.command, last.exit_code) == (None, None)


def test_what_is_wrong_is_scored_and_has_no_reward(make: Make) -> None:
    harness = make()
    rollout = play(harness, Says(harness.reply("echo '{}' > sum.json"), harness.reply(None)))
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.0)


def test_an_action_that_is_written_down_is_read_back(make: Make) -> None:
    harness = make()
    assert isinstance(harness, Demonstrable)
    for command in ('printf "%s\\n" "a <b> & \'c\'"', "cat <<'E' > ü.txt\n  two\n\n lines {x} $y\nE\nls", "true"):
        played = trajectory(harness, Says(harness.reply(command), harness.reply(None)))
        assert [turn.command for turn in played.turns] == [command, None]


def test_the_first_messages_are_the_prompt_and_the_contract(make: Make) -> None:
    harness = make()
    agent = Says(harness.reply(None))
    trajectory(harness, agent)
    system, user = agent.requests[0].messages
    assert (system.role, user.role) == ("system", "user")
    assert "${" not in system.content and "$tool" not in system.content
    assert user.content.splitlines() == [
        "Add up the column paid of fees.csv.",
        "Rules: header: it is no record.",
        "Deliver: sum.json (json: total integer).",
    ]


def test_out_of_turns_is_a_failure_of_the_agent(make: Make) -> None:
    harness = make(max_turns=3)
    agent = Says(harness.reply(SOLUTION))
    rollout = play(harness, agent)
    assert (rollout.outcome, rollout.reward) == (Outcome.AGENT_FAILED, 0.0)
    assert rollout.trajectory is not None and rollout.trajectory.stop is Stop.TURNS
    assert len(agent.requests) == len(rollout.trajectory.turns) == 3


def test_out_of_time_is_a_failure_of_the_agent(make: Make) -> None:
    harness = make(wall_s=0.2)
    rollout = play(harness, Says(harness.reply("sleep 0.3")))
    assert (rollout.outcome, rollout.reward) == (Outcome.AGENT_FAILED, 0.0)
    assert rollout.trajectory is not None and rollout.trajectory.stop is Stop.TIME
    assert len(rollout.trajectory.turns) == 1


def test_out_of_context_is_a_failure_of_the_agent(make: Make) -> None:
    harness = make()
    rollout = play(harness, Says("", finish="context"))
    assert rollout.trajectory is not None
    assert (rollout.reward, rollout.trajectory.stop, rollout.trajectory.turns) == (0.0, Stop.CONTEXT, ())


class Broken(Says):
    def complete(self, request: Request) -> Completion:
        if self.requests:
            raise InfrastructureError("the engine is gone")
        return super().complete(request)


def test_a_broken_engine_is_no_failure_of_the_agent(make: Make) -> None:
    harness = make()
    with BOXES.open(TASK.workspace) as box, pytest.raises(InfrastructureError, match="the engine is gone"):
        harness.run(TASK.assignment, Broken(harness.reply("ls")), box, 0)
    rollout = play(harness, Broken(harness.reply("ls")))
    assert (rollout.outcome, rollout.reward, rollout.error) == (
        Outcome.INFRASTRUCTURE_FAILED,
        None,
        "the engine is gone",
    )


MALFORMED = [
    "",
    "I think that it is 7.",
    "<tool_call>",
    "<tool_call>\n{\n</tool_call>",
    '<tool_call>\n{"name": "bash", "arguments": "ls"}\n</tool_call>',
    "<tool_call>\n" + "[" * 100_000 + "\n</tool_call>",
    "<function=run>\n<parameter=command>\nls",
    "<function=></function>",
    "Action: Fly\nAction Input: away",
    "Action: Shell",
    "Thought: \nAction:",
    "```bash",
    "```\n```",
    "\x00\u202e{}$x ${y}",
]


@pytest.mark.parametrize("reply", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_action_is_answered_in_words_and_goes_on(make: Make, reply: str) -> None:
    harness = make()
    agent = Says(reply, harness.reply(None))
    played = trajectory(harness, agent)
    assert played.stop is Stop.SUBMITTED
    first = played.turns[0]
    assert (first.action, first.command, first.exit_code) == (reply, None, None)
    assert first.observation and len(first.observation) < 600
    assert [m.role for m in agent.requests[1].messages] == ["system", "user", "assistant", "user"]
    assert first.observation in shown(agent)[0]


def test_output_that_is_huge_or_binary_is_shown_in_part_and_printable(make: Make) -> None:
    harness = make()
    agent = Says(harness.reply("head -c 90000 /dev/zero; printf '\\033[31m\\377ende'"), harness.reply(None))
    played = trajectory(harness, agent)
    text = played.turns[0].observation
    assert text.startswith("exit 0\n\\x00\\x00") and text.endswith("\\x1b[31m\\xffende")
    assert "characters left out" in text and len(text) < 360
    assert all(character.isprintable() or character == "\n" for character in shown(agent)[0])


def test_a_command_that_hangs_is_stopped_and_shown(make: Make) -> None:
    harness = make(command_s=0.5)
    played = trajectory(harness, Says(harness.reply("sleep 30 & sleep 30"), harness.reply(None)))
    assert played.turns[0].observation.startswith("stopped: timeout")
    assert played.turns[0].exit_code is None and played.seconds < 10


def test_a_command_that_fails_tells_its_code(make: Make) -> None:
    harness = make()
    played = trajectory(harness, Says(harness.reply("echo no >&2; exit 3"), harness.reply(None)))
    assert (played.turns[0].exit_code, played.turns[0].observation) == (3, "exit 3\nno")


def test_every_sampled_token_is_in_the_trace_once_and_nothing_else_is_trained(make: Make) -> None:
    harness = make()
    agent = Says(harness.reply("ls -l"), "What now?", harness.reply("echo ä"), harness.reply(None))
    played = trajectory(harness, agent)
    (trace,) = played.traces
    trained = [i for i, mask in zip(trace.ids, trace.mask, strict=True) if mask]
    assert trained == [i for ids in agent.sampled for i in ids] == list(range(len(trained)))
    assert len(agent.sampled) == 4
    numbers = [p for p, mask in zip(trace.logprobs, trace.mask, strict=True) if mask]
    assert numbers == [-0.5 - i for i in trained]
    assert all(i < 0 for i, mask in zip(trace.ids, trace.mask, strict=True) if not mask)


def test_the_noise_comes_from_the_seed_and_the_turn_and_a_session_is_one_episode(make: Make) -> None:
    harness = make()

    def requests(seed: int) -> list[Request]:
        agent = Says(harness.reply("ls"), harness.reply("ls"), harness.reply(None))
        with BOXES.open(TASK.workspace) as box:
            harness.run(TASK.assignment, agent, box, seed)
        return agent.requests

    one, again, other = requests(1), requests(1), requests(2)
    assert [r.seed for r in one] == [r.seed for r in again]
    assert len({r.seed for r in (*one, *other)}) == 6
    assert len({r.session for r in one}) == 1 and one[0].session != other[0].session
    assert {r.max_tokens for r in one} == {4096}


def test_what_was_played_can_be_kept(make: Make) -> None:
    harness = make()
    rollout = play(harness, Says(harness.reply("printf '\\355\\240\\200'; ls"), "\ufffd?", harness.reply(None)))
    assert decode(encode(rollout), Rollout) == rollout
    assert json.loads(encode(rollout))["trajectory"]["harness"] == harness.name
