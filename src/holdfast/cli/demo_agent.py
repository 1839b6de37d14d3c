"""One scripted agent of the demo: a process of its own that does what it is told, line by line.

It is a stand-in for a coding agent and uses the locks as any Python program would. Its thinking
is a pause. Each edit reads a file, thinks, and writes the file anew with one more line, so two
agents that were inside at once would lose lines.

Run with the root of the repository and a name. Reads one JSON command a line and answers each with
one JSON document a line; ends when nobody talks to it any more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from holdfast import HoldfastError, LockGrant, LockManager

#: How long it waits in line before it gives up.
WAIT_SECONDS = 20.0


class Agent:
    """What it is called, what it holds, and what it has written but not yet published."""

    def __init__(self, root: str, name: str) -> None:
        self.name = name
        self._root = root
        self._manager = LockManager.open(root)
        self._grants: list[LockGrant] = []
        self._draft = ""
        self._published = 0

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what one line says."""
        verb = command.pop("do")
        if verb not in ("work", "take", "edit", "draft", "publish", "give"):
            raise ValueError(f"an agent cannot {verb}")
        try:
            answer: dict[str, Any] = getattr(self, verb)(**command)
        except HoldfastError as error:
            answer = {"refused": error.code, "why": str(error), "hint": error.hint}
        return answer

    def take(
        self,
        write: list[str],
        read: list[str] | None = None,
        ttl: float = 1800,
        reason: str = "",
        wait: bool = True,
    ) -> dict[str, Any]:
        """Get all of it or nothing, in line or at once."""
        begin = time.monotonic()
        wanted: dict[str, Any] = {"holder": self.name, "write_paths": write, "ttl": ttl}
        wanted |= {"read_paths": read or [], "reason": reason}
        try:
            grant = (
                self._manager.acquire(timeout=WAIT_SECONDS, **wanted)
                if wait
                else self._manager.ensure(**wanted)
            )
        except HoldfastError as error:
            seconds = time.monotonic() - begin
            return {
                "refused": error.code, "why": str(error), "hint": error.hint, "seconds": seconds,
            }  # fmt: skip
        self._grants.append(grant)
        return {"token": grant.token, "seconds": time.monotonic() - begin}

    def work(
        self, write: list[str], read: list[str], thinking: float, reason: str
    ) -> dict[str, Any]:
        """One task from beginning to end: take, edit every file, give back."""
        answer = self.take(write, read, reason=reason)
        if "refused" in answer:
            return answer
        begin = time.monotonic()
        files = [path for path in write if ":" not in path]
        if files:
            edits = [self.edit(path, thinking / len(files))["edit"] for path in files]
            steady = True
        else:
            edits, before = [], self._contents(read)
            time.sleep(thinking)
            steady = self._contents(read) == before
        seconds = time.monotonic() - begin
        self.give()
        return {"edits": edits, "worked": seconds, "steady": steady, "waited": answer["seconds"]}

    def edit(self, path: str, thinking: float = 0.05) -> dict[str, Any]:
        """Read, think, write, publish."""
        self.draft(path, thinking)
        return self.publish(path)

    def draft(self, path: str, thinking: float = 0.05) -> dict[str, Any]:
        """Write a file anew beside itself, with one more line."""
        file = os.path.join(self._root, path)
        with open(file, encoding="ascii") as old:
            text = old.read()
        time.sleep(thinking)
        self._draft = f"{file}.{self.name}"
        self._line = f"{self._grants[-1].token} {self.name} {self._published + 1}"
        with open(self._draft, "w", encoding="ascii") as new:
            new.write(f"{text}{self._line}\n")
        return {"drafted": self._line}

    def publish(self, path: str) -> dict[str, Any]:
        """Put the draft in the file's place, if the token is still current."""
        try:
            with self._manager.fenced(self._grants[-1]):
                os.replace(self._draft, os.path.join(self._root, path))
        except HoldfastError:
            os.unlink(self._draft)
            raise
        self._published += 1
        return {"edit": [path, self._line]}

    def give(self) -> dict[str, Any]:
        """Give back everything."""
        for grant in self._grants:
            self._manager.release(grant.id, holder=self.name)
        self._grants.clear()
        return {}

    def _contents(self, folders: list[str]) -> list[str]:
        found = []
        for folder in folders:
            for name in sorted(os.listdir(os.path.join(self._root, folder))):
                if name.endswith(".py"):
                    with open(os.path.join(self._root, folder, name), encoding="ascii") as file:
                        found.append(file.read())
        return found


def main(root: str, name: str) -> None:
    """Obey until nobody talks any more."""
    agent = Agent(root, name)
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        print(json.dumps(agent.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
