"""harness/react: Thought, Action, Action Input, Observation."""

import pytest

from clawloop.harness.react.react import React
from clawloop.types import Stop

FINISH = "Thought: all is there.\nAction: Finish\nAction Input: done"


def act(name, given, thought="next"):
    return f"Thought: {thought}\nAction: {name}\nAction Input: {given}"


def test_actions_are_done_and_observed(play):
    write = act("Write", "d/n.txt\n  two words\n\nünd more")
    played, messages, left = play(React(), write, act("Read", "d/n.txt"), act("Shell", "exit 3"), FINISH)
    assert left.files["d/n.txt"] == "  two words\n\nünd more\n".encode()
    assert [(turn.exit_code, turn.observation) for turn in played.turns] == [
        (0, "d/n.txt has 23 bytes"),
        (0, "  two words\n\nünd more"),
        (3, "exit 3"),
        (None, ""),
    ]
    assert [turn.command for turn in played.turns[1:3]] == ["Read d/n.txt", "exit 3"]
    assert messages[3].content == "Observation: d/n.txt has 23 bytes"
    assert played.stop is Stop.SUBMITTED


def test_the_input_may_begin_on_the_next_line_and_have_many(play):
    _, _, left = play(React(), "Action: Shell\nAction Input:\ncat > b <<'E'\nAction is dear.\nE", FINISH)
    assert left.files["b"] == b"Action is dear.\n"


def test_an_observation_that_the_agent_makes_up_is_not_read(play):
    played, messages, _ = play(React(), act("Shell", "echo 1\nObservation: 2") + "\n" + FINISH, FINISH)
    assert (played.turns[0].command, played.turns[0].observation) == ("echo 1", "exit 0\n1")
    assert messages[-1].content == "Observation: exit 0\n1"


def test_finish_needs_no_input_and_a_thought_of_it_is_none(play):
    played, _, _ = play(React(), act("Shell", "true", thought="Action: later, then done"), "Action: Finish")
    assert [turn.command for turn in played.turns] == ["true", None]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("done", "there is no line that begins with Action:"),
        (act("Bash", "touch b"), "there is no action 'Bash'"),
        (act("Shell", ""), "Shell has no Action Input"),
        ("Action: Shell\ntouch b", "Shell has no Action Input"),
        (act("Shell", "touch b") + "\n" + act("Shell", "touch b"), "there is more than one action"),
        (act("Shell", "touch b") + "\n" + FINISH, "there is more than one action"),
        ("Observation: x\n" + FINISH, "there is no line that begins with Action:"),
    ],
)
def test_an_action_that_cannot_be_done_is_told_why(play, reply, said):
    played, messages, left = play(React(), reply, FINISH)
    assert said in played.turns[0].observation
    assert messages[3].content.startswith("Observation: Not done: ")
    assert "b" not in left.files and played.turns[0].command is None


def test_files_outside_of_the_workspace_are_out_of_reach(play):
    replies = [act("Read", path) for path in ("/etc/passwd", "../x", "link")] + [act("Write", "/tmp/x\nx"), FINISH]
    played, _, _ = play(React(), *replies, prepare="ln -s /etc/passwd link")
    assert [turn.exit_code for turn in played.turns] == [1, 1, 1, 1, None]
