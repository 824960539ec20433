"""harness/shell: the control loop, by a scripted agent in a real box."""

import pytest

from clawloop.harness.shell.shell import Shell, command_of, observation, opening
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import Agent
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import (
    Assignment,
    CommandResult,
    Completion,
    Contract,
    Decision,
    Deliverable,
    Request,
    Stop,
    Workspace,
)

ASSIGNMENT = Assignment(
    "t1",
    "a.txt has two lines. Count its lines into n.txt.",
    Workspace({"a.txt": b"x\ny\n"}),
    Contract((Decision("header", "there is none"),), (Deliverable("n.txt", "text", {"count": "integer"}),)),
)


class Says:
    """An agent that says what it is told to, in order."""

    version = "told"

    def __init__(self, *replies: str, finish: str = "stop") -> None:
        self.replies, self.finish = replies, finish
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Completion:
        text = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        return Completion(text, (), tuple(text.encode()), (0.0,) * len(text.encode()), self.finish)


def play(agent: Agent, **arguments: float) -> tuple[Stop, list[str], dict[str, bytes]]:
    with Bubblewrap().open(ASSIGNMENT.workspace) as box:
        trajectory = Shell(**{"max_turns": 4, **arguments}).run(ASSIGNMENT, agent, box, 0)  # type: ignore[arg-type]
        return trajectory.stop, [turn.observation for turn in trajectory.turns], dict(box.snapshot().files)


def test_a_command_runs_and_done_submits() -> None:
    stop, seen, files = play(Says("```bash\nwc -l < a.txt > n.txt; echo ok\n```", "done"))
    assert (stop, seen) == (Stop.SUBMITTED, ["exit 0\nok", ""])
    assert files["n.txt"] == b"2\n"


def test_without_done_the_turns_run_out() -> None:
    stop, seen, _ = play(Says("```bash\ntrue\n```"))
    assert (stop, len(seen)) == (Stop.TURNS, 4)


def test_a_reply_without_a_command_is_told_so() -> None:
    stop, seen, _ = play(Says("I think it is 2.", "done"))
    assert stop is Stop.SUBMITTED
    assert seen[0].startswith("No command found.")


def test_time_and_context_end_an_episode() -> None:
    assert play(Says("```bash\nsleep 0.3\n```"), wall_s=0.2)[0] is Stop.TIME
    assert play(Says("", finish="context"))[0] is Stop.CONTEXT


def test_a_command_that_hangs_is_stopped_and_shown() -> None:
    _, seen, _ = play(Says("```bash\nsleep 30\n```", "done"), command_s=0.5)
    assert seen[0].startswith("stopped: timeout")


def test_later_requests_carry_the_sampled_tokens() -> None:
    agent = Says("```bash\necho hi\n```", "done")
    play(agent)
    assert agent.requests[1].messages[2].ids == tuple(b"```bash\necho hi\n```")
    assert agent.requests[0].session == agent.requests[1].session
    assert agent.requests[0].seed != agent.requests[1].seed


def test_observations_are_clipped_and_printable() -> None:
    text = observation(CommandResult(1, b"\x1b[31mred\x00\xff" + b"z" * 500, b""), 100)
    assert text.startswith("exit 1\n\\x1b[31mred\\x00\\xff")
    assert "characters left out" in text
    assert len(text) < 160


def test_the_opening_holds_contract_and_no_more() -> None:
    system, user = opening(ASSIGNMENT)
    assert "bash" in system.content
    assert user.content.splitlines() == [
        "a.txt has two lines. Count its lines into n.txt.",
        "Rules: header: there is none.",
        "Deliver: n.txt (text: count integer).",
    ]
    assert '"command"' in opening(ASSIGNMENT, "full.md")[0].content


@pytest.mark.parametrize(("reply", "command"), [("```sh\nls\n```", "ls"), ("ls", None), ("```bash\n\n```", None)])
def test_commands_are_read_from_blocks(reply: str, command: str | None) -> None:
    assert command_of(reply) == command


def test_the_scripted_policy_follows_rules_and_slips_by_seed() -> None:
    rules = [
        {
            "when": r"(?P<file>\S+) has .*Count its lines into (?P<out>\S+)\.",
            "say": "```bash\nwc -l < {file} > {out}\n```",
        }
    ]
    assert play(ScriptedPolicy(rules, slip=0.0))[2]["n.txt"] == b"2\n"
    assert "n.txt" not in play(ScriptedPolicy(rules, slip=1.0))[2]
    policy = ScriptedPolicy(rules, slip=0.5)
    texts = {policy.complete(Request(opening(ASSIGNMENT), "s", seed, 9)).text for seed in range(40)}
    assert len(texts) == 2


def test_a_prompt_that_is_not_there_is_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"harness: shell has no system prompt 'brif\.md'; use full\.md or brief\.md"):
        Shell(system="brif.md")
