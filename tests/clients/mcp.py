"""MCP servers for the real clients: how a client is started with one, and calls its tools."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .crew import Claudes, Codexes, Crew
from .drive import write_codex_config, write_json
from .install import program
from .notes_server import TOOLS
from .servers import Call

FILES, NOTES = "files", "notes"
FILE_TOOLS = ("write_file", "edit_file", "move_file", "read_text_file")


def words_of(server: str, crew: Crew, file: str) -> list[str]:
    if server == NOTES:
        script = Path(__file__).with_name("notes_server.py")
        return [sys.executable, str(script), str(crew.gated.root / file)]
    return [shutil.which("node") or "", str(program("mcp-files")), str(crew.gated.root)]


def started_with(crew: Crew, servers: Sequence[str] = (FILES,), file: str = "") -> dict[str, Any]:
    """The options that start a client with the tools of these servers: `files` is a real one,
    `notes` is ours, which writes `file`."""
    home = crew.gated.home()
    known = {server: words_of(server, crew, file) for server in servers}
    if isinstance(crew, Claudes):
        config = home.with_suffix(".mcp.json")
        entries = {name: {"command": w[0], "args": w[1:]} for name, w in known.items()}
        write_json(config, {"mcpServers": entries})
        named = {FILES: FILE_TOOLS, NOTES: tuple(TOOLS)}
        tools = ",".join(f"mcp__{one}__{name}" for one in servers for name in named[one])
        return {"home": home, "options": ["--mcp-config", str(config), "--allowedTools", tools]}
    home.mkdir()
    write_codex_config(home, crew.gated.root)
    parts = [
        f"\n[mcp_servers.{name}]\ncommand = {json.dumps(words[0])}\n"
        f"args = {json.dumps(words[1:])}\nrequired = true\n"
        for name, words in known.items()
    ]
    file_of_home = home / "codex" / "config.toml"
    file_of_home.write_text("".join([file_of_home.read_text(), *parts]))
    return {"home": home}


def tool(crew: Crew, name: str, /, server: str = FILES, **fields: Any) -> Call:
    if isinstance(crew, Codexes):
        return Call(name, fields, namespace=f"mcp__{server}")
    return Call(f"mcp__{server}__{name}", fields)
