"""harness/xml: one call a turn between tags, its values as plain text."""

import pytest

from clawloop.harness.xml.xml import Xml
from clawloop.types import Stop

FINISH = "<function=finish>\n</function>"


def call(name, **given):
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in given.items())
    return f"<function={name}>\n{inside}</function>"


def test_values_are_plain_text_and_nothing_is_escaped(play):
    text = '  {"a": "<b>&amp;"}\n\n\\n end'
    played, messages, left = play(Xml(), "I write.\n" + call("create", path="d/ü.txt", text=text), FINISH)
    assert left.files["d/ü.txt"] == f"{text}\n".encode()
    assert played.turns[0].command == f"create\nd/ü.txt\n{text}"
    assert messages[3].content == "<response>\nd/ü.txt has 28 bytes\n</response>"
    assert (messages[2].calls, messages[3].role) == ((), "user")


def test_a_file_is_viewed_with_numbers_and_changed_in_one_place(play):
    change = call("str_replace", path="a.txt", old_str="two", new_str="2\n2")
    played, _, _ = play(Xml(), change, call("view", path="a.txt"), call("view", path="b"), FINISH)
    assert played.turns[1].observation == "     1\tone\n     2\t2\n     3\t2\n     4\tthree"
    assert (played.turns[2].exit_code, played.turns[2].command) == (1, "view\nb")


def test_a_wrapping_tag_and_a_thought_do_no_harm(play):
    reply = (
        f"<think>{call('run', command='touch b')}</think><tool_call>\n{call('run', command='touch c')}\n</tool_call>"
    )
    _, _, left = play(Xml(), reply, FINISH)
    assert "c" in left.files and "b" not in left.files


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("done", "the reply holds no call"),
        (call("run", command="touch b") * 2, "the reply holds 2 calls"),
        ("<function=run>\n<parameter=command>\ntouch b\n", "a <function=...> has no </function>"),
        (call("bash", command="touch b"), "there is no function 'bash', only run, view, create, str_replace, finish"),
        (call("run", command="touch b", user="root"), "run takes command, each once"),
        (call("run"), "run takes command, each once"),
        (call("create", path="b"), "create takes path and text, each once"),
        ("<function=run>touch b<parameter=command>\nls\n</parameter></function>", "text that stands in no parameter"),
        ("<function=run><parameter=command>touch b</function>", "text that stands in no parameter"),
    ],
)
def test_a_call_that_cannot_be_made_is_told_why(play, reply, said):
    played, _, left = play(Xml(), reply, FINISH)
    assert said in played.turns[0].observation and "<function=run>" in played.turns[0].observation
    assert (played.turns[0].command, played.stop) == (None, Stop.SUBMITTED)
    assert "b" not in left.files


def test_the_prompt_holds_every_function(play):
    _, messages, _ = play(Xml(), "", FINISH)
    assert all(
        f"<name>{name}</name>" in messages[0].content for name in ("run", "view", "create", "str_replace", "finish")
    )


def test_files_outside_of_the_workspace_are_out_of_reach(play):
    replies = [call("view", path=path) for path in ("/etc/passwd", "../x", "link")]
    replies += [call("create", path="/tmp/x", text="x"), FINISH]
    played, _, _ = play(Xml(), *replies, prepare="ln -s /etc/passwd link")
    assert [turn.exit_code for turn in played.turns] == [1, 1, 1, 1, None]
