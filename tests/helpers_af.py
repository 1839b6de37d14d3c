"""af, as it was observed to behave: its proof, its replay, and a client that claims as it does.

Written from the program's effects on disk, without any code of ours. The replay raises where af
reports that its proof cannot be read. The client takes `ledger.lock` by an exclusive create,
decides on a replay of all events before it took the lock, appends only if the event number has not
changed since, does not retry, and never breaks a lock.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

#: The events that af replays, whatever its version.
TYPES = frozenset({
    "proof_initialized", "node_created", "nodes_claimed", "nodes_released", "claim_refreshed",
    "challenge_raised", "challenge_resolved", "challenge_withdrawn", "challenge_superseded",
    "node_validated", "node_admitted", "node_refuted", "node_archived", "node_amended",
    "taint_recomputed", "def_added", "lemma_extracted",
})  # fmt: skip

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z\Z")


class Unreadable(Exception):
    """The error of af when it cannot replay its proof."""


def moment(text: str) -> float:
    """The seconds of one of af's times."""
    whole, _, part = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{part or 0}")


Nodes = dict[str, "tuple[str, float] | None"]


def replay(root: Path) -> Nodes:
    """The nodes of a proof, each with the owner and the end of its claim, as af reads them."""
    return Replay(root).caught_up()


class Replay:
    """A replay that continues where it ended."""

    def __init__(self, root: Path) -> None:
        self.ledger = root / "ledger"
        self.count = 0
        self.nodes: Nodes = {}

    def caught_up(self) -> Nodes:
        """All nodes, after all recorded events."""
        numbered = {}
        for name in os.listdir(self.ledger):
            stem, _dot, end = name.partition(".")
            if end == "json" and stem.isascii() and stem.isdigit():
                numbered[int(stem)] = name
        for expected, number in enumerate(sorted(numbered), 1):
            if number != expected:
                raise Unreadable(f"sequence gap detected: got {number}, expected {expected}")
            if numbered[number] != f"{number:06d}.json":
                raise Unreadable(f"event {number} not found")
            if number > self.count:
                self._apply(number)
        return self.nodes

    def _apply(self, number: int) -> None:
        data = (self.ledger / f"{number:06d}.json").read_bytes()
        if len(data) > 1 << 20:
            raise Unreadable(f"event {number} is too large")
        try:
            event = json.loads(data.decode())
        except ValueError as error:
            raise Unreadable(f"event {number}: {error}") from error
        if event.get("type") not in TYPES:
            raise Unreadable(f"unknown event type: {event.get('type')}")
        _apply(self.nodes, number, event)
        self.count = number


def _apply(nodes: Nodes, number: int, event: dict[str, Any]) -> None:
    type = event["type"]
    moment(event["timestamp"])
    if type == "node_created":
        nodes[event["node"]["id"]] = None
    elif type == "nodes_claimed":
        for node in event["node_ids"]:
            if node not in nodes:
                raise Unreadable(f"event {number}: node {node} not found in state")
            if nodes[node] is not None:
                raise Unreadable(f"event {number}: {node} from claimed to claimed")
            nodes[node] = (event["owner"], moment(event["timeout"]))
    elif type == "claim_refreshed":
        claim = nodes.get(event["node_id"])
        if claim is None or claim[0] != event["owner"]:
            raise Unreadable(f"event {number}: {event['node_id']} is not claimed by the owner")
        nodes[event["node_id"]] = (event["owner"], moment(event["new_timeout"]))
    elif type == "nodes_released":
        for node in event["node_ids"]:
            if nodes.get(node) is None:
                raise Unreadable(f"event {number}: {node} from available to available")
            nodes[node] = None


def check_bytes(root: Path) -> None:
    """Check that each event has exactly the bytes that af writes."""
    for file in sorted((root / "ledger").glob("[0-9]*.json")):
        data = file.read_bytes()
        event = json.loads(data)
        assert list(event)[:2] == ["type", "timestamp"], data
        compact = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        for one in "&<>\u2028\u2029":
            compact = compact.replace(one, f"\\u{ord(one):04x}")
        assert data == compact.encode(), data
        assert _STAMP.match(event["timestamp"]), data
        assert file.stat().st_mode & 0o777 == 0o644


def make(root: Path, nodes: int = 6, **meta: Any) -> Path:
    """A proof of af with a root and some nodes below it, none claimed."""
    for name in ("ledger", "nodes", "defs", "assumptions", "externals", "lemmas", "locks"):
        (root / name).mkdir(parents=True)
    (root / "meta.json").write_text(json.dumps({"version": "1.0", **meta}))
    put(root, {"type": "proof_initialized", "conjecture": "it is so", "author": "ann"})
    for node in ("1", *(f"1.{number}" for number in range(1, nodes + 1))):
        fields = {"id": node, "type": "claim", "statement": "s", "workflow_state": "available"}
        put(root, {"type": "node_created", "node": fields})
    return root


def put(root: Path, event: dict[str, Any], stamp: str = "2023-02-20T10:00:00.5Z") -> int:
    """Append an event as af does, without its lock."""
    number = len(list((root / "ledger").glob("[0-9]*.json"))) + 1
    told = {"type": event["type"], "timestamp": stamp, **event}
    path = root / f"ledger/{number:06d}.json"
    path.write_text(json.dumps(told, separators=(",", ":")))
    path.chmod(0o644)
    return number


#: One process of af after another, in a loop: argv is the proof, a name, and a file that ends it.
CLIENT = """
import json, random
sys.path.insert(0, sys.argv[4])
from datetime import datetime, timedelta, timezone
from pathlib import Path
from helpers_af import Replay, Unreadable
root, name, stop = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
ledger = root / "ledger"
lock = ledger / "ledger.lock"
replay = Replay(root)

def text(moment):
    told = moment.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return told + "Z"

def count():
    return len([one for one in os.listdir(ledger) if one[:1].isdigit()])

def acquire():
    deadline = time.monotonic() + 5
    while True:
        try:
            fd = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
            continue
        told = {"agent_id": "append-operation", "acquired_at": text(datetime.now(timezone.utc))}
        os.write(fd, json.dumps(told).encode() + b"\\n")
        os.close(fd)
        return True

def append_if(number, event):
    if not acquire():
        say("waited in vain")
        return False
    try:
        if count() != number:
            say("mismatch")
            return False
        event = {"type": event.pop("type"), "timestamp": text(datetime.now(timezone.utc)), **event}
        temporary = ledger / f".event-{random.randrange(10**9)}.tmp"
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(fd, json.dumps(event, separators=(",", ":")).encode())
        os.fsync(fd)
        os.close(fd)
        os.chmod(temporary, 0o644)
        os.rename(temporary, ledger / f"{number + 1:06d}.json")
        return True
    finally:
        os.unlink(lock)

def step():
    try:
        nodes = replay.caught_up()
    except Unreadable:  # a folder that is listed while files are made may lack one of two
        nodes = replay.caught_up()
    number = replay.count
    now = datetime.now(timezone.utc)
    node = f"1.{random.randint(1, 6)}"
    claim = nodes[node]
    until = text(now + timedelta(seconds=random.uniform(0.3, 1.5)))
    if claim is None:
        if append_if(number, {"type": "nodes_claimed", "node_ids": [node], "owner": name,
                              "timeout": until}):
            say("claimed", node, number + 1)
    elif claim[0] == name and claim[1] > now.timestamp():
        if random.random() < 0.4:
            append_if(number, {"type": "claim_refreshed", "node_id": node, "owner": name,
                               "new_timeout": until})
        else:
            say("releasing", node)
            append_if(number, {"type": "nodes_released", "node_ids": [node]})
    elif claim[1] < now.timestamp():
        append_if(number, {"type": "nodes_released", "node_ids": [node]})

say("ready")
while not os.path.exists(stop):
    step()
    time.sleep(random.uniform(0, 0.01))
say("over")
"""
