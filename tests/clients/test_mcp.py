"""The gate around the tools of a real MCP server of files, called by the real clients."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from helpers_processes import LINUX_ONLY

from .crew import REFUSED, Claudes, Codexes, Crew
from .drive import write_codex_config, write_json
from .gated import AT_ONCE, Gated
from .install import program
from .servers import Call

pytestmark = LINUX_ONLY


def started_with(crew: Crew) -> dict[str, Any]:
    """What a client is started with that is to have the tools of the server."""
    words = [shutil.which("node"), str(program("mcp-files")), str(crew.gated.root)]
    home = crew.gated.home()
    if isinstance(crew, Claudes):
        file = crew.gated.root.parent / "mcp.json"
        write_json(file, {"mcpServers": {"files": {"command": words[0], "args": words[1:]}}})
        tools = "mcp__files__write_file,mcp__files__edit_file,mcp__files__read_text_file"
        options = ["--mcp-config", str(file), "--allowedTools", tools]
        return {"home": home, "options": options}
    home.mkdir()
    write_codex_config(home, crew.gated.root)
    config = home / "codex" / "config.toml"
    server = f"\n[mcp_servers.files]\ncommand = {json.dumps(words[0])}\n"
    config.write_text(
        f"{config.read_text()}{server}args = {json.dumps(words[1:])}\nrequired = true\n"
    )
    return {"home": home}


def tool(crew: Crew, name: str, **fields: Any) -> Call:
    if isinstance(crew, Codexes):
        return Call(name, fields, namespace="mcp__files")
    return Call(f"mcp__files__{name}", fields)


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
    assert f"{REFUSED}a.txt is being written by {owner.name}" in refused
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
