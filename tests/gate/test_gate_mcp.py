"""Tools of MCP servers: a path among the arguments is leased if the tool may write, and every call
is watched like a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_hook import AtTheDoor, Scene, refusal
from holdfast.gate import clients
from holdfast.gate.clients.mcp_calls import written


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    (repository / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


@pytest.fixture(params=["claude", "codex"])
def ann(scene: Scene, request: pytest.FixtureRequest) -> AtTheDoor:
    return scene.at_the_door("ann", request.param)


@pytest.fixture
def bob(scene: Scene) -> AtTheDoor:
    return scene.at_the_door("bob")


def call(agent: AtTheDoor, tool: str, when: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
    return agent.tell(f"{when}-Bash", tool_name=f"mcp__fs__{tool}", tool_input=fields)


def test_the_clients_are_asked_to_tell_of_every_tool_of_an_mcp_server() -> None:
    for client in ("claude", "codex"):
        adapter = clients.adapter(client)
        assert adapter is not None
        for event in ("PreToolUse", "PostToolUse"):
            assert "mcp__.*" in str(adapter.EVENTS[event]).split("|")


def test_what_an_mcp_tool_writes_is_leased_like_an_edit(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    file = str(scene.root / "x.txt")
    assert not refusal(call(ann, "write_file", path=file, content="new"))
    assert scene.owners() == {"x.txt": "ann"}
    why = refusal(call(bob, "edit_file", path=file, edits=[]))
    assert "x.txt" in why
    assert "retry" in why
    assert bob.edit("x.txt")


def test_an_mcp_tool_does_not_write_what_another_holds(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    assert not bob.edit("x.txt")
    for arguments in (
        {"path": str(scene.root / "x.txt")},
        {"path": "x.txt"},
        {"files": [{"name": "x"}, {"path": f"file://{scene.root}/x.txt"}]},
        {"source": str(scene.root / "y.txt"), "destination": str(scene.root / "x.txt")},
    ):
        assert "x.txt" in refusal(call(ann, "write_file", **arguments)), arguments


def test_a_tool_that_is_named_for_reading_is_not_refused(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    assert not bob.edit("x.txt")
    for tool in ("read_file", "readFile", "get_file_info", "search-files", "list_directory"):
        assert not refusal(call(ann, tool, path=str(scene.root / "x.txt")))
    assert scene.owners() == {"x.txt": "bob"}


def test_a_folder_decides_only_for_a_tool_that_is_named_for_writing(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    assert not bob.edit("app/x.rb")
    folder = str(scene.root / "app")
    assert not refusal(call(ann, "directory_tree", path=folder))
    assert "app/x.rb" in refusal(call(ann, "move_directory", source=folder, destination="/nowhere"))


def test_whatever_a_tool_is_called_what_it_damaged_is_found(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    assert not bob.edit("x.txt", "bob's work\n")
    assert not refusal(call(ann, "get_lucky", number=7))
    (scene.root / "x.txt").write_text("overwritten\n")
    said = json.dumps(call(ann, "get_lucky", "PostToolUse", number=7))
    assert "x.txt" in said
    assert "holdfast undo" in said
    assert scene.events("damage")


def test_a_call_that_failed_is_looked_at_too(scene: Scene, bob: AtTheDoor) -> None:
    ann = scene.at_the_door("ann")
    assert not bob.edit("x.txt", "bob's work\n")
    call(ann, "get_lucky")
    (scene.root / "x.txt").write_text("overwritten\n")
    call(ann, "get_lucky", "PostToolUseFailure")
    assert scene.events("damage")


def test_with_the_guard_of_the_shell_switched_off_mcp_tools_are_held_all_the_same(
    scene: Scene, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    (scene.root / "holdfast.toml").write_text('[gate]\nhold_seconds = 0\nshell = "off"\n')
    assert not bob.edit("x.txt")
    assert refusal(call(ann, "write_file", path="x.txt"))


def test_the_files_that_switch_the_gate_off_are_kept_from_mcp_tools(
    scene: Scene, ann: AtTheDoor
) -> None:
    assert refusal(call(ann, "write_file", path=str(scene.root / ".holdfast/off"), content=""))
    assert refusal(call(ann, "write_file", path=str(scene.root / "holdfast.toml"), content=""))


def test_files_elsewhere_pass(scene: Scene, ann: AtTheDoor, tmp_path: Path) -> None:
    assert not refusal(call(ann, "write_file", path=str(tmp_path / "elsewhere.txt")))
    assert scene.owners() == {}


def test_a_blocked_agent_calls_no_mcp_tool(scene: Scene, ann: AtTheDoor, bob: AtTheDoor) -> None:
    assert not bob.edit("x.txt")
    assert call(ann, "write_file", path="x.txt")
    scene.clock.advance(181)
    assert refusal(call(ann, "write_file", path="x.txt"))
    assert refusal(call(ann, "get_lucky"))


# How the arguments are read


TEXT = "/* no path\nbut a text */"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"path": "/r/a"}, ("/r/a",)),
        ({"path": "a/b"}, ("/cwd/a/b",)),
        ({"content": "a/b"}, ()),
        ({"content": TEXT, "targetFile": "x"}, ("/cwd/x",)),
        ({"uri": "file:///r/a%20b%"}, ("/r/a b%",)),
        ({"uri": "https://host/a"}, ()),
        ({"paths": ["/r/a", {"path": "/r/b"}, 7, None]}, ("/r/a", "/r/b")),
        ({"deep": [[[[[[["/r/a"]]]]]]]}, ()),
        ({"path": "/r/" + "a" * 5000}, ()),
        ({"path": "a\0b"}, ()),
        ([], ()),
        (None, ()),
    ],
)
def test_paths_among_arguments(fields: object, found: tuple[str, ...]) -> None:
    assert written("mcp__s__write_file", fields, "/cwd") == found
    assert written("mcp__s__readFile", fields, "/cwd") == ()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.text(), VALUES)
def test_no_arguments_break_it(tool: str, fields: object) -> None:
    for path in written(f"mcp__s__{tool}", fields, "/cwd"):
        assert path.startswith("/")
