"""harness/tools: function calls in JSON, several a turn, and file tools that stay in the workspace."""

import json

import pytest

from clawloop.harness.files import MOST
from clawloop.harness.tools.tools import Tools
from clawloop.types import Stop


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


SUBMIT = call("submit")


def test_the_prompt_holds_every_tool_with_its_schema(play):
    _, messages, _ = play(Tools(max_calls=3), "", SUBMIT)
    for name in ("bash", "read_file", "write_file", "edit", "submit"):
        assert f'"name": "{name}"' in messages[0].content
    assert "up to 3 calls" in messages[0].content


def test_calls_of_one_reply_run_in_order_and_each_is_answered_and_is_a_turn(play):
    reply = (
        "I write.\n" + call("write_file", path="d/n.txt", content="2\n") + call("bash", command="cat d/n.txt; exit 4")
    )
    reply += "\n" + call("read_file", path="d/n.txt")
    played, messages, left = play(Tools(), reply, SUBMIT)
    assert left.files["d/n.txt"] == b"2\n"
    assert [(t.exit_code, t.observation) for t in played.turns] == [
        (0, "d/n.txt has 2 bytes"),
        (4, "exit 4\n2"),
        (0, "2"),
        (None, ""),
    ]
    assert [t.command for t in played.turns][1] == "cat d/n.txt; exit 4"
    assert "".join(t.action for t in played.turns[:3]) == reply
    assert all("d/n.txt" in t.command for t in played.turns[:3])
    said, *answers = messages[2:]
    assert (said.content, said.ids) == ("I write.", tuple(reply.encode()))
    assert [one.name for one in said.calls] == ["write_file", "bash", "read_file"]
    assert [one.role for one in answers] == ["tool"] * 3
    assert [one.call_id for one in answers] == [one.id for one in said.calls]
    assert len({one.id for one in said.calls}) == 3
    assert json.loads(said.calls[0].arguments) == {"path": "d/n.txt", "content": "2\n"}


def test_submit_ends_at_once_and_what_follows_is_not_run(play):
    played, _, left = play(Tools(), call("bash", command="touch b") + SUBMIT + call("bash", command="touch c"))
    assert played.stop is Stop.SUBMITTED
    assert "b" in left.files and "c" not in left.files
    assert len(played.turns) == 2


def test_calls_of_one_reply_do_not_outrun_the_episode_s_time(play):
    reply = "\n".join(call("bash", command=f"sleep 0.6; echo {n} >> n.txt") for n in range(8))
    played, _, left = play(Tools(wall_s=1.0, max_calls=9), reply + SUBMIT)
    assert played.stop is Stop.TIME
    assert len(played.turns) in (1, 2) and left.files["n.txt"] == b"0\n1\n"[: 2 * len(played.turns)]


def test_the_turns_of_an_episode_are_its_replies(play):
    both = call("bash", command="true") * 2
    played, _, _ = play(Tools(max_turns=2), both, both)
    assert (played.stop, len(played.turns)) == (Stop.TURNS, 4)


def test_a_thought_is_no_call(play):
    played, _, left = play(Tools(), f"<think>{call('bash', command='touch b')} or</think>{SUBMIT}")
    assert (played.stop, len(played.turns)) == (Stop.SUBMITTED, 1)
    assert "b" not in left.files


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("done", "the reply holds no call"),
        (SUBMIT * 9, "9 calls are more than 8"),
        (call("bash", command="touch b") + "<tool_call>{", "a <tool_call> has no </tool_call>"),
        (call("bash", command="touch b") + "<tool_call>{</tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "bash", "arguments": {"command": "\\ud800"}}</tool_call>', "not valid JSON"),
        ('<tool_call>["bash"]</tool_call>', "a JSON object with name and arguments"),
        ('<tool_call>{"name": "bash", "arguments": []}</tool_call>', "the arguments of a call must be"),
    ],
)
def test_of_a_reply_that_cannot_be_read_nothing_is_run(play, reply, said):
    played, messages, left = play(Tools(), reply, SUBMIT)
    first = played.turns[0]
    assert said in first.observation and "<tool_call>" in first.observation
    assert (first.action, first.command, first.exit_code) == (reply, None, None)
    assert [m.role for m in messages] == ["system", "user", "assistant", "user"]
    assert "b" not in left.files


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (call("python", code="1"), "there is no tool 'python', only bash, read_file, write_file, edit, submit"),
        (call("bash"), "bash needs command"),
        (call("bash", command=["ls"]), "command of bash must be of type string"),
        (call("read_file", path="a.txt", first_line=True), "first_line of read_file must be of type integer"),
        (call("bash", command="ls", user="root"), "bash has no parameter 'user'"),
        (call("submit", answer="2"), "submit has no parameter 'answer'"),
    ],
)
def test_a_call_that_does_not_fit_its_schema_is_told_so_and_the_others_run(play, wrong, said):
    played, messages, left = play(Tools(), wrong + call("bash", command="touch b"), SUBMIT)
    assert said in played.turns[0].observation and played.turns[0].command is None
    assert "b" in left.files
    assert [m.role for m in messages[3:]] == ["tool", "tool"]


def test_edit_replaces_what_stands_there_once(play):
    replies = [
        call("edit", path="a.txt", old="two\n", new="zwölf\n"),
        call("edit", path="a.txt", old="e", new="x"),
        call("edit", path="a.txt", old="gone", new="x"),
        call("edit", path="a.txt", old="", new="x"),
    ]
    played, _, left = play(Tools(), "".join(replies), SUBMIT)
    assert left.files["a.txt"] == "one\nzwölf\nthree\n".encode()
    assert [t.exit_code for t in played.turns[:4]] == [0, 1, 1, 1]
    assert "is there 3 times" in played.turns[1].observation
    assert played.turns[2].observation == "refused: the old text must be in a.txt once and is there 0 times"


def test_lines_are_counted_from_one(play):
    lines = [(1, 2), (2, 2), (3, 9), (4, 4), (0, 1), (3, 2)]
    reply = "".join(call("read_file", path="a.txt", first_line=a, last_line=b) for a, b in lines)
    played, _, _ = play(Tools(), reply + call("read_file", path="a.txt", first_line=2), SUBMIT)
    assert [t.observation for t in played.turns[:3]] == ["one\ntwo", "two", "three"]
    assert [t.observation for t in played.turns[3:6]] == ["refused: a.txt has 3 lines"] * 3
    assert played.turns[6].observation == "two\nthree"


def test_files_outside_of_the_workspace_are_out_of_reach(play):
    prepare = "ln -s /etc/passwd link; ln -s /etc dir; mkfifo pipe; mkdir folder"
    paths = ["/etc/passwd", "../../etc/passwd", "link", "dir/passwd", "pipe", "folder", "", "gone", "a\0b", "x" * 300]
    for name, more in (("read_file", {}), ("edit", {"old": "root", "new": "x"})):
        played, _, _ = play(
            Tools(max_calls=20), "".join(call(name, path=p, **more) for p in paths), SUBMIT, prepare=prepare
        )
        assert [t.exit_code for t in played.turns[:-1]] == [1] * len(paths), name
        assert all(t.observation.startswith("refused: ") and "root:" not in t.observation for t in played.turns[:-1])
    writes = "".join(call("write_file", path=p, content="x") for p in ["/tmp/x", "../x", "dir/x", "folder", "", "a\nb"])
    played, _, left = play(Tools(), writes, SUBMIT, prepare=prepare)
    assert [t.exit_code for t in played.turns[:-1]] == [1] * 6
    assert set(left.files) == {"a.txt"}


def test_a_link_is_replaced_and_not_followed(play):
    played, _, left = play(Tools(), call("write_file", path="link", content="mine"), SUBMIT, prepare="ln -s a.txt link")
    assert played.turns[0].exit_code == 0
    assert (left.files["link"], left.files["a.txt"]) == (b"mine", b"one\ntwo\nthree\n")


def test_large_and_binary_files_are_bounded(play):
    prepare = f"head -c {MOST + 1} /dev/zero > big; printf '\\000\\377x' > binary"
    replies = call("read_file", path="big") + call("read_file", path="binary")
    replies += call("write_file", path="big2", content="y" * (MOST + 1))
    played, _, left = play(Tools(observation_chars=100), replies, SUBMIT, prepare=prepare)
    assert [t.exit_code for t in played.turns[:3]] == [1, 0, 1]
    assert played.turns[1].observation == "\\x00\\xffx"
    assert "big2" not in left.files
