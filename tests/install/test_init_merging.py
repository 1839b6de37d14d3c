"""Hooks in settings that another program wrote: added and removed without changing another byte."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gate.install import client_hooks, hook_entries, json_text
from holdfast.gate.install.client_hooks import Unusable, Wanted
from holdfast.gate.install.json_text import NotJson

OURS = "/venv/bin/python -I -S /site/holdfast/gate/hook.py claude"
FILE = ".claude/settings.local.json"


def wanted(event: str, matcher: str | None, line: str, timeout: int, status: str = "") -> Wanted:
    made = hook_entries.made(line.split(), event, FILE, exec_form=True, status=status)
    return Wanted(event, matcher, {**made, "timeout": timeout}, "timeout")


def older(event: str, matcher: str | None, line: str, timeout: int) -> Wanted:
    """A hook as earlier versions wrote it: a line for a shell."""
    handler = {"type": "command", "command": line, "timeout": timeout}
    return Wanted(event, matcher, handler, "timeout")


WANTED = [
    wanted("PreToolUse", "Write|Edit", OURS, 240),
    wanted("Stop", None, OURS, 240, "waiting"),
]
THEIRS = {"type": "command", "command": "echo 'gate/hook.py'"}


def put_in(text: str) -> str:
    return client_hooks.merged(text, WANTED)


def taken_out(text: str, before: str = "{}") -> str:
    return client_hooks.stripped(text, json.loads(before))


SETTINGS = {
    "two blanks": '{\n  "model": "x",\n  "hooks": {\n    "Stop": [\n      {\n        "hooks": []\n'
    "      }\n    ]\n  }\n}\n",
    "tabs": '{\n\t"a": 1,\n\t"hooks": {\n\t\t"PreToolUse": [\n\t\t\t{"matcher": "Bash", "hooks": '
    '[{"type": "command", "command": "x"}]}\n\t\t]\n\t}\n}',
    "one line": '{"a": [1, 2.50, 1e5], "hooks": {"Stop": []}}',
    "tight": '{"a":{"b":null},"hooks":{}}\n',
    "line ends of Windows": '{\r\n    "a": true,\r\n    "hooks": {\r\n    }\r\n}\r\n',
    "escapes": '{\n  "a": "\\u00e9\\/é\\ud83d\\ude00",\n  "z": 1.0,\n  "b": -0.0\n}\n',
    "nothing": "{}",
    "nothing on a line": "{}\n",
    "other events": '{"hooks": {"Notification": [{"hooks": [{"type": "http", "url": "x"}]}]}}',
    "odd order": '{\n  "hooks": {\n    "Stop": []\n  },\n  "a": 1\n}\n',
    "no line break at the end": '{\n "a": 1\n}',
}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_put_in_can_be_taken_out_to_the_byte(name: str) -> None:
    text = SETTINGS[name]
    new = put_in(text)
    assert len(client_hooks.found_hooks(new)) == len(WANTED)
    left = taken_out(new, text)
    blank = str.maketrans("", "", " \r\n")
    if "hooks" in json.loads(text) and not json.loads(text)["hooks"]:
        # Whitespace inside empty brackets is the only thing that is not kept.
        assert left.translate(blank) == text.translate(blank)
    else:
        assert left == text


@pytest.mark.parametrize("name", SETTINGS)
def test_putting_in_adds_lines_and_changes_none(name: str) -> None:
    text = SETTINGS[name]
    if "\n" not in text.strip():
        return
    old = [line.rstrip(",\r") for line in text.split("\n")]
    new = iter([line.rstrip(",\r") for line in put_in(text).split("\n")])
    for line in old:
        if line.strip() not in ("]", "}") and "[]" not in line:
            assert line in new, f"{line!r} is missing, or in a different place"


@pytest.mark.parametrize("name", SETTINGS)
def test_putting_in_again_changes_nothing(name: str) -> None:
    new = put_in(SETTINGS[name])
    assert put_in(new) == new


def test_the_indentation_and_the_line_ends_are_those_of_the_file() -> None:
    new = put_in(SETTINGS["tabs"])
    assert '\n\t\t"Stop": [\n\t\t\t{"hooks"' in new
    new = put_in(SETTINGS["line ends of Windows"])
    assert new.count("\n") == new.count("\r\n")
    assert '\r\n        "Stop": [' in new


def test_a_file_with_nothing_in_it_gets_a_whole_document() -> None:
    for text in ("", " \n"):
        assert json.loads(put_in(text)).keys() == {"hooks"}


def test_hooks_of_others_stay_where_they_are_and_ours_come_last() -> None:
    text = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [THEIRS]}]}})
    groups = json.loads(put_in(text))["hooks"]["PreToolUse"]
    assert groups[0] == {"matcher": "Bash", "hooks": [THEIRS]}
    assert groups[1] == WANTED[0].group()


def test_hooks_of_an_older_installation_are_replaced_in_their_place() -> None:
    old = older("PreToolUse", "Write", "python3 /old/holdfast/gate/hook.py claude", 9)
    text = json.dumps({"hooks": {"PreToolUse": [old.group(), {"hooks": [THEIRS]}]}})
    groups = json.loads(put_in(text))["hooks"]["PreToolUse"]
    assert groups == [WANTED[0].group(), {"hooks": [THEIRS]}]


def test_doubled_hooks_become_one() -> None:
    text = json.dumps({"hooks": {"Stop": [WANTED[1].group()] * 3}})
    assert json.loads(put_in(text))["hooks"]["Stop"] == [WANTED[1].group()]


def test_our_hook_leaves_a_group_that_it_shared_with_others() -> None:
    shared = {"matcher": "Bash", "hooks": [WANTED[0].group()["hooks"][0], THEIRS]}
    text = json.dumps({"hooks": {"PreToolUse": [shared]}})
    assert json.loads(put_in(text))["hooks"]["PreToolUse"] == [
        {"matcher": "Bash", "hooks": [THEIRS]},
        WANTED[0].group(),
    ]
    assert json.loads(taken_out(text))["hooks"] == {
        "PreToolUse": [{"matcher": "Bash", "hooks": [THEIRS]}]
    }


def test_a_hook_of_ours_that_is_not_wanted_any_more_goes() -> None:
    old = older("PreCompact", None, OURS, 240)
    text = json.dumps({"hooks": {"PreCompact": [old.group()]}})
    assert json.loads(put_in(text))["hooks"].keys() == {"PreToolUse", "Stop"}


def test_taking_out_keeps_what_was_empty_before() -> None:
    text = '{\n  "hooks": {\n    "Stop": []\n  }\n}\n'
    assert taken_out(put_in(text), text) == text
    assert json.loads(taken_out(put_in("{}"), "{}")) == {}


def test_what_a_client_has_written_anew_loses_only_our_hooks() -> None:
    before = '{"permissions": {"allow": []}}'
    data = json.loads(put_in(before))
    data["permissions"]["allow"].append("Bash(ls:*)")
    left = taken_out(json.dumps(data, indent=2), before)
    assert left == json.dumps({"permissions": {"allow": ["Bash(ls:*)"]}}, indent=2)


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ('{\n  // mine\n  "a": 1\n}', "comments", 2),
        ('{"a": 1} /* mine */', "comments", 1),
        ("# mine\n{}", "comments", 1),
        ('{\n  "a": [1, 2,],\n}', "comma before the closing bracket", 2),
        ('{\n  "a": 1,\n}', "comma before the closing bracket", 3),
        ('{"a": 1', "ends too early", 1),
        ("{'a': 1}", "unexpected", 1),
        ('{"a": NaN}', "unexpected", 1),
        ('{"a": 01}', "unexpected", 1),
        ('{"a": "x\ny"}', "control character", 1),
        ('{} {}', "unexpected", 1),
        ("[]", "not an object", 0),
        ('{"hooks": []}', "not an object", 0),
        ('{"hooks": {}, "hooks": {}}', "twice", 0),
        ('{"hooks": {"Stop": [], "Stop": []}}', "twice", 0),
        ('{"hooks": {"Stop": {}}}', "not a list", 0),
        ("[" * 100_000, "nested too deeply", 1),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_what_is_not_plain_is_refused_with_its_place(text: str, what: str, line: int) -> None:
    with pytest.raises(Unusable, match=f"(?i){what}") as caught:
        put_in(text)
    assert caught.value.line == line


def test_differences_are_told_in_words() -> None:
    text = put_in("{}")
    assert client_hooks.differences(text, WANTED) == []
    assert client_hooks.differences("{}", WANTED)[0] == "the hook for PreToolUse is missing"
    [told] = client_hooks.differences(text.replace("240", "60", 1), WANTED)
    assert told == "the hook for PreToolUse has timeout = 60, not 240"
    [told] = client_hooks.differences(text.replace("Write|Edit", "Write"), WANTED)
    assert "matches 'Write'" in told
    [told] = client_hooks.differences(text.replace('"waiting"', '"idle"'), WANTED)
    assert told == "the hook for Stop has statusMessage = 'idle', not 'waiting'"
    [told] = client_hooks.differences(text.replace('"type"', '"async": true, "type"', 1), WANTED)
    assert told == "the hook for PreToolUse has been changed"


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        (OURS, True),
        ("'/my venv/bin/python' -I -S '/my site/holdfast/gate/hook.py' codex", True),
        ("python3 holdfast/gate/hook.py claude", True),
        ("/site/myholdfast/gate/hook.py", False),
        ("echo /site/holdfast/gate/hook.py.bak", False),
        ("echo 'see holdfast/gate/hook.py for more'", False),
    ],
)
def test_our_hooks_are_known_by_the_script_that_they_run(command: str, ours: bool) -> None:
    assert hook_entries.is_ours({"command": command}) is ours
    if "see" not in command:
        program, *more = shlex.split(command)
        assert hook_entries.is_ours({"command": program, "args": more}) is ours
    assert not hook_entries.is_ours({"url": command})
    assert not hook_entries.is_ours(command)


# Any JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
HANDLER = st.sampled_from([THEIRS, {"type": "http", "url": "x"}, {}])
GROUP = st.fixed_dictionaries(
    {"hooks": st.lists(HANDLER, max_size=2)}, optional={"matcher": st.text(max_size=3)}
)
EVENTS = st.dictionaries(
    st.sampled_from(["PreToolUse", "Stop", "Other"]), st.lists(GROUP, max_size=2), max_size=3
)
ROOTS = st.builds(
    lambda others, own: {**others, **own},
    st.dictionaries(st.text(max_size=4).filter("hooks".__ne__), VALUES, max_size=3),
    st.fixed_dictionaries({}, optional={"hooks": EVENTS}),
)
STYLES = st.sampled_from(
    [{}, {"indent": 2}, {"indent": "\t"}, {"indent": 0}, {"separators": (",", ":")},
     {"indent": 4, "ensure_ascii": False}]
)  # fmt: skip


@given(ROOTS, STYLES)
def test_any_settings_survive_our_coming_and_going(root: dict[str, Any], style: Any) -> None:
    text = json.dumps(root, **style)
    new = put_in(text)
    assert put_in(new) == new
    assert taken_out(new, text) == text
    found = json.loads(new)
    for one in WANTED:
        assert found["hooks"][one.event].pop() == one.group()
    for event in [event for event, groups in found["hooks"].items() if not groups]:
        if event not in root.get("hooks", {}):
            del found["hooks"][event]
    if "hooks" not in root:
        del found["hooks"]
    assert found == root


@given(VALUES, STYLES)
def test_the_parts_of_a_text_are_what_the_standard_reader_finds(value: Any, style: Any) -> None:
    text = json.dumps(value, **style)
    node = json_text.parse(text)
    assert json_text.value(text, node) == value
    if isinstance(value, dict):
        assert node.names == list(value)


@given(st.text(alphabet='{}[]",:0123.eE-+tfnrualse\\ \n', max_size=30))
def test_a_text_is_refused_exactly_if_the_standard_reader_refuses_it(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(NotJson):
            json_text.parse(text)
    else:
        assert json_text.value(text, json_text.parse(text)) == expected
