"""Crowds on one proof: our processes, and clients written only from the protocol's text.

The clients use no code of ours. One is the shell script from the text, with a folder as the lock;
the other does in plain Python what the text states about claims.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import helpers_af as af
from helpers_processes import Child, Crowd, until
from holdfast.proof import ProofLedger, make_proof, verify
from holdfast.proof.health.audit_finding import ERROR

#: The script of the text, in a loop: each event has an additional field, each append prints a line.
SHELL = r"""
LEDGER_DIR="$1/ledger"; NAME="$2"; STOP="$3"
LOCK_FILE="$LEDGER_DIR/ledger.lock"
N=0
echo ready
while [ ! -e "$STOP" ]; do
    while ! mkdir "$LOCK_FILE" 2>/dev/null; do
        sleep 0.01
    done
    NEXT_SEQ=$(ls "$LEDGER_DIR"/event-*.json 2>/dev/null | wc -l)
    NEXT_SEQ=$((NEXT_SEQ + 1))
    N=$((N + 1))
    TEMP_FILE=$(mktemp "$LEDGER_DIR/.event-XXXXX.tmp")
    NOW=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    echo '{"type":"custom_event","timestamp":"'$NOW'","id":"'$NAME-$N'"}' > "$TEMP_FILE"
    mv "$TEMP_FILE" "$LEDGER_DIR/event-$(printf '%06d' $NEXT_SEQ).json"
    rmdir "$LOCK_FILE"
    echo "in $NAME-$N $NEXT_SEQ"
done
echo over
"""

SHELL_CLIENT = f"""
os.execvp("bash", ["bash", "-c", {SHELL!r}, "client", *sys.argv[1:4]])
"""

PLAIN_CLIENT = """
import json, random
from datetime import datetime, timedelta, timezone
ledger, name, stop = sys.argv[1] + "/ledger", sys.argv[2], sys.argv[3]
lock = ledger + "/ledger.lock"
state, seen, count = {}, 0, 0

def now():
    return datetime.now(timezone.utc)

def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

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
        os.write(fd, json.dumps({"agent_id": name, "acquired_at": text(now())}).encode())
        os.close(fd)
        return True

def files():
    return sorted(f for f in os.listdir(ledger) if f.startswith("event-"))

def replay():
    global seen
    for file in files()[seen:]:
        with open(ledger + "/" + file) as f:
            event = json.load(f)
        seen += 1
        if event["type"] == "lock_acquired":
            state[event["node_id"]] = (event["owner"], datetime.fromisoformat(event["expires_at"]))
        elif event["type"] in ("lock_released", "lock_reaped"):
            state.pop(event["node_id"], None)

def append(event):
    number = len(files()) + 1
    temporary = f"{ledger}/.event-{name}-{os.getpid()}.tmp"
    with open(temporary, "w") as f:
        json.dump({"type": event.pop("type"), "timestamp": text(now()), **event}, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(temporary, f"{ledger}/event-{number:06d}.json")
    return number

say("ready")
while not os.path.exists(stop):
    if not acquire():
        say("waited in vain")
        continue
    try:
        replay()
        count += 1
        node = f"1.{random.randint(1, 6)}"
        owner, until = state.get(node, ("", now()))
        id = f"{name}-{count}"
        if owner == name and until > now():
            number = append({"type": "lock_released", "node_id": node, "owner": name, "id": id})
        elif until <= now():
            number = append({"type": "lock_acquired", "node_id": node, "owner": name, "id": id,
                             "expires_at": text(now() + timedelta(seconds=1))})
        else:
            number = append({"type": "custom_event", "id": id})
    finally:
        os.remove(lock)
    say("in", id, number)
    time.sleep(random.uniform(0, 0.01))
say("over")
"""

OUR_CLIENT = """
import random
from holdfast.core.errors import LockTimeoutError, Lost
from holdfast.proof import Claims, NodeAlreadyLocked, ProofLedger, SequenceMismatch
name, stop = sys.argv[2], sys.argv[3]
ledger = ProofLedger(sys.argv[1])
claims = Claims(ledger)
count = 0
say("ready")
while not os.path.exists(stop):
    count += 1
    id = f"{name}-{count}"
    what = random.random()
    node = f"1.{random.randint(1, 6)}"
    try:
        if what < 0.4:
            say("in", id, ledger.append({"type": "ours", "id": id}))
        elif what < 0.5:
            say("in", id, ledger.append_if_sequence({"type": "ours", "id": id}, ledger.head))
        elif what < 0.7:
            say("claimed", node, claims.claim(node, owner=name, timeout="1s").sequence)
        elif what < 0.8:
            claims.refresh(node, owner=name, timeout="1s")
        elif what < 0.95:
            claims.release(node, owner=name)
        else:
            claims.reap()
    except (NodeAlreadyLocked, Lost):
        pass
    except SequenceMismatch:
        say("mismatch")
    except LockTimeoutError:
        say("waited in vain")
say("over")
"""


#: Ours on a proof of af: each owner keeps a node for a moment, and releases or loses it.
OUR_CLIENT_OF_AF = """
import random
from holdfast.core.errors import LockTimeoutError, Lost
from holdfast.proof import Claims, NodeAlreadyLocked, ProofLedger
name, stop = sys.argv[2], sys.argv[3]
claims = Claims(ProofLedger(sys.argv[1]))
mine = []
say("ready")
while not os.path.exists(stop):
    node = f"1.{random.randint(1, 6)}"
    try:
        if mine and random.random() < 0.6:
            node = mine.pop()
            if random.random() < 0.3:
                claims.refresh(node, owner=name, timeout="1s")
            say("releasing", node)
            claims.release(node, owner=name)
        elif random.random() < 0.95:
            say("claimed", node, claims.claim(node, owner=name, timeout="1s").sequence)
            mine.append(node)
        else:
            claims.reap()
    except (NodeAlreadyLocked, Lost):
        pass
    except LockTimeoutError:
        say("waited in vain")
    time.sleep(random.uniform(0, 0.015))
say("over")
"""


class Fight:
    """Some processes of ours and some of others on one proof, until they are stopped."""

    client = OUR_CLIENT

    def __init__(self, crowd: Crowd, root: Path) -> None:
        self.crowd = crowd
        self.root = root
        self.stop = root / "stop"
        self.make()
        self.ours: list[Child] = []
        self.others: list[Child] = []
        self.killed = 0
        self.holds: dict[str, int] = {}

    def make(self) -> None:
        """The proof that they fight over."""
        make_proof(self.root, claim_files=True)

    def start_ours(self) -> None:
        name = f"ours-{len(self.crowd.children)}"
        self.ours.append(self.crowd.start(self.client, self.root, name, self.stop, name=name))

    def start_other(self, text: str) -> None:
        name = f"other-{len(self.crowd.children)}"
        here = Path(__file__).parent
        self.others.append(self.crowd.start(text, self.root, name, self.stop, here, name=name))

    def run(self, seconds: float, *, between: float) -> None:
        """Kill one of ours now and then, and start another in its place."""
        for child in (*self.ours, *self.others):
            child.wait_for("ready")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(random.uniform(0.5, 1.5) * between)
            at = random.randrange(len(self.ours))
            os.kill(self.ours[at].pid, signal.SIGKILL)
            self.killed += 1
            self.ours.pop(at)
            self.start_ours()
        for child in self.ours:
            child.wait_for("ready")
        self.stop.touch()
        for child in (*self.ours, *self.others):
            child.done()

    def judge(self) -> list[dict[str, Any]]:
        """Check that no event is lost, replaced or doubled, every file whole and no process stuck.
        Returns all events."""
        ledger = ProofLedger(self.root)
        last = ledger.append({"type": "the_end", "id": "end"})
        found = [one for one in verify(ledger) if one.severity == ERROR or "release" in one.code]
        assert found == [], found
        files = sorted(self.root.glob("ledger/event-*.json"))
        assert [file.name for file in files] == [f"event-{n:06d}.json" for n in range(1, last + 1)]
        events = [json.loads(file.read_text()) for file in files]
        ids = [event["id"] for event in events if "id" in event]
        assert len(ids) == len(set(ids)), "an event is there twice"
        for child in self.crowd.children:
            for id, number in child.words("in"):
                assert events[int(number) - 1].get("id") == id, f"{child.name} lost {id}"
            for node, number in child.words("claimed"):
                event = events[int(number) - 1]
                assert (event["type"], event["node_id"]) == ("lock_acquired", node)
        self._nobody_came_between(events)
        return events

    def _nobody_came_between(self, events: list[dict[str, Any]]) -> None:
        """By the history alone: no node is granted while another owner has it."""
        held: dict[str, tuple[str, str]] = {}
        for event in events:
            node = event.get("node_id", "")
            if event["type"] == "lock_acquired":
                owner, until = held.get(node, ("", ""))
                if owner not in ("", event["owner"]):
                    assert _moment(until) <= _moment(event["timestamp"]), event
                held[node] = (event["owner"], event["expires_at"])
            elif event["type"] in ("lock_released", "lock_reaped"):
                assert held.pop(node, ("", ""))[0] == event["owner"], event


def _moment(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


class AfFight(Fight):
    """Ours and af on a proof of af."""

    client = OUR_CLIENT_OF_AF

    def make(self) -> None:
        af.make(self.root)

    def judge(self) -> list[dict[str, Any]]:
        """af replays all of it; each reported claim is there; only its owner ended a live claim.
        Returns all events."""
        af.replay(self.root)
        af.check_bytes(self.root)
        found = [one for one in verify(ProofLedger(self.root)) if one.severity == ERROR]
        assert found == [], found
        files = sorted(self.root.glob("ledger/[0-9]*.json"))
        events = [json.loads(file.read_text()) for file in files]
        for child in self.crowd.children:
            for node, number in child.words("claimed"):
                event = events[int(number) - 1]
                assert (event["type"], event["node_ids"]) == ("nodes_claimed", [node])
                assert event["owner"] == _owner(child)
        self._only_owners_end_what_is_live(events)
        return events

    def _only_owners_end_what_is_live(self, events: list[dict[str, Any]]) -> None:
        meant: dict[tuple[str, str], int] = {}
        for child in self.crowd.children:
            for (node,) in child.words("releasing"):
                meant[_owner(child), node] = meant.get((_owner(child), node), 0) + 1
        held: dict[str, tuple[str, float]] = {}
        for event in events:
            if event["type"] == "nodes_claimed":
                held[event["node_ids"][0]] = (event["owner"], af.moment(event["timeout"]))
            elif event["type"] == "claim_refreshed":
                held[event["node_id"]] = (event["owner"], af.moment(event["new_timeout"]))
            elif event["type"] == "nodes_released":
                node = event["node_ids"][0]
                owner, until = held.pop(node)
                if until > af.moment(event["timestamp"]):
                    meant[owner, node] = meant.get((owner, node), 0) - 1
                    assert meant[owner, node] >= 0, f"{event}: {owner} did not release it"


def _owner(child: Child) -> str:
    """The owner of a child's claims: its own name, without the number that the crowd gave it."""
    return child.name.rpartition("-")[0]


def af_fight(folder: Path, *, ours: int, theirs: int, seconds: float, between: float) -> AfFight:
    """A whole fight on a proof of af, and its check."""
    with Crowd(folder) as crowd:
        ring = AfFight(crowd, folder / "proof")
        for _ in range(ours):
            ring.start_ours()
        for _ in range(theirs):
            ring.start_other(af.CLIENT)
        ring.run(seconds, between=between)
        events = ring.judge()
        owners = [event["owner"] for event in events if event["type"] == "nodes_claimed"]
        ring.holds = {
            kind: sum(owner.startswith(kind) for owner in owners) for kind in ("ours", "other")
        }
        assert all(ring.holds.values()), ring.holds
        until(lambda: not (ring.root / "ledger/ledger.lock").exists(), "the lock is free")
        return ring


def fight(
    folder: Path, *, ours: int, shells: int, plains: int, seconds: float, between: float
) -> Fight:
    """A whole fight, and its check."""
    with Crowd(folder) as crowd:
        ring = Fight(crowd, folder / "proof")
        for _ in range(ours):
            ring.start_ours()
        for text in [SHELL_CLIENT] * shells + [PLAIN_CLIENT] * plains:
            ring.start_other(text)
        ring.run(seconds, between=between)
        events = ring.judge()
        for child in ring.others:
            assert child.words("in"), f"{child.name} never got its turn"
        assert any(event["type"] == "ours" for event in events)
        until(lambda: not (ring.root / "ledger/ledger.lock").exists(), "the lock is free")
        return ring
