"""The gate around the tools of a real MCP server of files, called by the real clients."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY

from .crew import REFUSED, Crew
from .gated import AT_ONCE, Gated
from .mcp import started_with, tool

pytestmark = LINUX_ONLY


def test_a_tool_of_a_real_mcp_server_writes_nothing_that_another_holds(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**AT_ONCE)
    owner = crew.owner()
    a, b = (str(gated.root / name) for name in ("a.txt", "b.txt"))
    other = crew.run(
        "other",
        tool(crew, "write_file", path=a, content="theirs\n"),
        tool(crew, "read_text_file", path=a),
        tool(crew, "write_file", path=b, content="free\n"),
        **started_with(crew),
    )
    refused, read, written = other.results
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in refused
    assert "mine" in read
    assert REFUSED not in written
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "free\n"
    owner.ends()


def test_two_agents_that_write_by_mcp_are_kept_apart(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    file = str(gated.root / "a.txt")
    owner = crew.owner(tool(crew, "write_file", path=file, content="mine\n"), **started_with(crew))
    assert gated.held() == {"a.txt": owner.name}, owner.results
    other = crew.run(
        "other", tool(crew, "edit_file", path=file, edits=[{"oldText": "mine", "newText": "no"}]),
        **started_with(crew),
    )  # fmt: skip
    assert REFUSED in other.results[0]
    assert Path(file).read_text() == "mine\n"
    owner.ends()
    assert gated.held() == {}
