"""Which edits of a client start from the file's content at the moment of the write."""

from __future__ import annotations

import pytest

from holdfast.gate.clients import claude, codex


@pytest.mark.parametrize(
    ("tool", "keeps"), [("Edit", True), ("Write", False), ("NotebookEdit", False), ("", False)]
)
def test_of_claudes_tools_only_edit_is_known_to_keep_the_rest(tool: str, keeps: bool) -> None:
    data = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {"file_path": "/a"}}
    assert claude.keeps_rest(data) is keeps
    assert not claude.keeps_rest(None)


@pytest.mark.parametrize(
    ("part", "keeps"),
    [
        ("*** Update File: a\n@@\n-x\n+y", True),
        ("*** Update File: a\n@@\n-x\n+*** Add File: y", True),
        ("*** Update File: a\n*** Move to: b\n@@\n-x\n+y", False),
        ("*** Add File: a\n+y", False),
        ("*** Update File: a\n@@\n-x\n+y\n*** Delete File: b", False),
    ],
)
def test_a_patch_keeps_the_rest_if_it_only_changes_lines(part: str, keeps: bool) -> None:
    text = f"*** Begin Patch\n{part}\n*** End Patch\n"
    for command in (text, ["apply_patch", text]):
        assert codex.keeps_rest({"tool_input": {"command": command}}) is keeps
    assert not codex.keeps_rest({})
