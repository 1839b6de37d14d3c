"""The real opencode: its tools, and its command line.

It can use any server that speaks one of several protocols. Here it uses Claude Code's server.
Its tools depend on the model's name: a model named gpt-5 gets a patch tool in place of tools that
edit and write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .drive import Running, client_environment, home_for
from .install import program
from .servers import AnthropicServer, Call

MODEL = "claude-scripted"
#: This model gets apply_patch, and neither edit nor write.
PATCH_MODEL = "gpt-5-scripted"


def edit(path: object, old: str, new: str) -> Call:
    return Call("edit", {"filePath": str(path), "oldString": old, "newString": new})


def write(path: object, content: str) -> Call:
    return Call("write", {"filePath": str(path), "content": content})


def read(path: object) -> Call:
    return Call("read", {"filePath": str(path)})


def patch(*parts: str) -> Call:
    """Edit files: each part describes one file, as for Codex."""
    text = "\n".join(["*** Begin Patch", *parts, "*** End Patch"])
    return Call("apply_patch", {"patchText": text})


def bash(command: str) -> Call:
    return Call("bash", {"command": command, "description": "Run a command"})


def start_opencode(
    repo: Path,
    prompt: str,
    server: AnthropicServer,
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    model: str = MODEL,
    before: Sequence[str] = (),
) -> Running:
    """Start `opencode run`, which asks for no permission; `before` are the words that start it."""
    home = home_for(repo, home, "opencode-home")
    words = [str(program("opencode")), "run", "--format", "json", "--model", f"scripted/{model}"]
    made = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(_config(server)),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        # It installs a package for plugins into every new home, and works without it.
        "npm_config_offline": "true",
    }
    return Running([*before, *words, prompt], repo, home, client_environment(home, made, env))


def _config(server: AnthropicServer) -> dict[str, object]:
    limit = {"context": 200_000, "output": 8_000}
    models = {name: {"name": name, "limit": limit} for name in (MODEL, PATCH_MODEL)}
    provider = {
        "npm": "@ai-sdk/anthropic",  # part of the program
        "name": "scripted",
        "options": {"baseURL": f"{server.url}/v1", "apiKey": "dummy"},
        "models": models,
    }
    more = {"autoupdate": False, "share": "disabled", "permission": "allow"}
    return {**more, "provider": {"scripted": provider}}
