"""Processes that contend for files, some of them stopped, some killed: never two holders.

The contents of the guarded files decide, not our own ledger. A process with a write lock on a file
puts its mark into the file, increments a number in it by reading and writing, and removes the mark.
Another's mark in a locked file, a missing mark of its own, a number that was written twice, a
smaller token than the one before: each of these means that there were two holders.

A process that is stopped for longer than its lease cannot know that it lost the lease. It would
write when it continues; so every write here is a rename inside `fenced`. The same fight without
that must fail, or these tests would prove nothing. `fights/test_long_fight.py` runs for longer.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from helpers_processes import LINUX_ONLY, Auditor, Child, Crowd, state_of, until
from holdfast import LockManager
from holdfast.core.table import fold

pytestmark = LINUX_ONLY

SECONDS = 3.0
FILES = [f"guarded/{folder}/{name}" for folder in "ab" for name in "012"]
SHORT_TTL = 0.4

FIGHTER = """
import json, random
from holdfast import LockManager, Lost, StoreError

root, role, seed, ttl, fence, pauses, files, store = sys.argv[1:]
files, pauses, fence, me = files.split(","), float(pauses), fence == "fenced", os.getpid()
folders = sorted({os.path.dirname(file) + "/" for file in files})
dice = random.Random(int(seed))
os.chdir(root)
manager = LockManager.open(root, store=store or None)
spare = f"spare/{me}"


class Bad(Exception):
    pass


def look(file):
    with open(file) as opened:
        return json.load(opened)


def put(grant, file, content):
    with open(spare, "w") as opened:
        json.dump(content, opened)
    if dice.random() < pauses and not os.path.exists("over"):
        say("pausing", file)
        os.kill(me, signal.SIGSTOP)
    if not fence:
        os.replace(spare, file)
        return
    try:
        with manager.fenced(grant):
            os.replace(spare, file)
    except StoreError:  # a server ended the section; it says to verify the grant
        if not store or os.path.exists(spare) or not manager.verify(grant.id, token=grant.token):
            raise


def is_in(grant):
    # A short lease may have run out before its holder came to look, on a busy machine too.
    return role == "steady" or manager.verify(grant.id, token=grant.token)


def bad(grant, what, file):
    # One who may be stopped may have lost its lease; then others are right to be there.
    if role == "steady" or (fence and manager.verify(grant.id, token=grant.token)):
        say("violation", what, file, grant.token)
    raise Bad


def check(grant, file):
    seen = look(file)
    if seen["mark"] and is_in(grant):
        say("mark", file, seen["pid"], seen["token"], time.monotonic())
        if seen["role"] == "steady":
            bad(grant, "somebody-is-in", file)
    if seen["token"] >= grant.token:
        bad(grant, "token-is-not-larger", file)
    return seen["counter"]


def own(grant, file, counter):
    seen = look(file)
    if (seen["pid"], seen["token"], seen["counter"]) != (me, grant.token, counter):
        bad(grant, "my-mark-is-gone", file)
    return seen["counter"]


def write(grant, writes):
    counters = {}
    mine = {"pid": me, "role": role, "token": grant.token, "mark": True}
    for file in writes:
        counters[file] = check(grant, file)
        put(grant, file, {**mine, "counter": counters[file]})
    for file in writes:
        counters[file] = own(grant, file, counters[file]) + 1
        put(grant, file, {**mine, "counter": counters[file]})
        say("counted", file, counters[file], grant.token)
    for file in writes:
        own(grant, file, counters[file])
        put(grant, file, {**mine, "counter": counters[file], "mark": False})


def read(grant, folder):
    inside = [file for file in files if file.startswith(folder)]
    before = [look(file) for file in inside]
    for file, seen in zip(inside, before):
        if seen["mark"] and is_in(grant):
            say("mark", file, seen["pid"], seen["token"], time.monotonic())
            if seen["role"] == "steady":
                bad(grant, "somebody-is-in", file)
    if [look(file) for file in inside] != before:
        bad(grant, "changed-while-i-read", folder)


def wanted():
    if dice.random() < 0.2 and len(folders) > 1:
        folder = dice.choice(folders)
        others = [file for file in files if not file.startswith(folder)]
        return [folder], dice.sample(others, dice.choice((0, 1)))
    return [], dice.sample(files, min(len(files), dice.choice((1, 1, 2, 3))))


def turn():
    reads, writes = wanted()
    try:
        grant = manager.acquire(
            holder="fighter", read_paths=reads, write_paths=writes, timeout=25, ttl=float(ttl)
        )
    except Lost as loss:  # it was stopped while it waited, was served, and let it run out
        say("lost", "0", loss.code)
        return
    try:
        for folder in reads:
            read(grant, folder)
        write(grant, writes)
    except Bad:
        say("noticed", grant.token)
    except Lost as loss:
        say("lost", grant.token, loss.code)
    except StoreError:
        if role == "steady" or manager.verify(grant.id, token=grant.token):
            raise
        say("lost", grant.token, "E_STORE")
    else:
        say("turn", *writes)
    manager.release(grant.id)


say("ready")
go()
while not os.path.exists("over"):
    turn()
manager.close()
say("ended")
"""


class Arena:
    """A repository with guarded files, the contenders, and the verdict of the files."""

    def __init__(
        self, crowd: Crowd, root: Path, files: list[str], *, fence: str, store: str = ""
    ) -> None:
        """`store` is the URL of a store on a server."""
        self.crowd = crowd
        self.store = store
        self.root = root
        self.files = files
        self.fence = fence
        self.fighters: list[Child] = []
        self.killed: dict[int, float] = {}
        (root / ".holdfast").mkdir(parents=True)
        (root / "spare").mkdir()
        for file in files:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            empty = {"pid": 0, "role": "", "token": 0, "mark": False, "counter": 0}
            (root / file).write_text(json.dumps(empty))

    def enter(self, role: str, *, ttl: float, pauses: float = 0) -> Child:
        seed = len(self.fighters)
        child = self.crowd.start(
            FIGHTER, self.root, role, seed, ttl, self.fence, pauses, ",".join(self.files),
            self.store, name=role,
        )  # fmt: skip
        self.fighters.append(child)
        return child

    def kill(self, child: Child) -> None:
        self.killed[child.pid] = time.monotonic()
        child.kill()

    def end(self) -> None:
        (self.root / "over").touch()
        left = [child for child in self.fighters if child.pid not in self.killed]

        def have_ended() -> bool:
            # All of them together: a process that was stopped inside the gate blocks all others.
            for child in left:
                if state_of(child.pid) == "T":
                    child.resume()
            return all(child.process.poll() is not None for child in left)

        until(have_ended, "the fighters end")
        for child in left:
            child.done()

    # The verdict

    def violations(self) -> list[str]:
        found = [
            f"{child.name}: {' '.join(words)}"
            for child in self.fighters
            for words in child.words("violation")
        ]
        for file in self.files:
            found += self._violations_of_counter(file)
        for child in self.fighters:
            for file, pid, token, at in child.words("mark"):
                if not self._may_be_left(int(pid), token, float(at)):
                    found.append(f"{child.name}: found the mark {token} of {pid} in {file}")
        return found

    def _violations_of_counter(self, file: str) -> list[str]:
        """Every number was written once, with a larger token than the number before."""
        found, last, missing, token_before = [], 0, 0, 0
        for counter, token, name in self.counted(file):
            if counter <= last:
                found.append(f"{name}: {file} was counted to {counter} twice")
            if token <= token_before:
                found.append(f"{name}: {file} has token {token} after {token_before}")
            missing += max(0, counter - last - 1)
            last, token_before = counter, token
        content = json.loads((self.root / file).read_text())
        missing += content["counter"] - last
        # A process killed right after its write had no time to report it.
        if not 0 <= missing <= len(self.killed):
            found.append(f"{file}: {missing} counts are missing")
        return found

    def counted(self, file: str) -> list[tuple[int, int, str]]:
        return sorted(
            (int(words[1]), int(words[2]), child.name)
            for child in self.fighters
            for words in child.words("counted")
            if words[0] == file
        )

    def _may_be_left(self, pid: int, token: str, at: float) -> bool:
        """Killed processes leave their marks behind, and so do those that noticed their loss."""
        if pid in self.killed:
            return self.killed[pid] <= at
        owner = next(child for child in self.fighters if child.pid == pid)
        return any(words[0] == token for words in owner.words("lost") + owner.words("noticed"))


def test_eight_processes_fight_while_others_are_stopped_and_killed(
    crowd: Crowd, tmp_path: Path
) -> None:
    eight_fight(Arena(crowd, tmp_path / "repo", FILES, fence="fenced"), SECONDS)


def eight_fight(
    arena: Arena,
    seconds: float,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    pace: float = 1,
) -> None:
    """The fight; it must be one in which enough happens each second. Another thread does
    something `meanwhile`, and the fight goes on until it is done. At a slower pace fewer are
    killed, since their replacements take long to start."""
    steady = [arena.enter("steady", ttl=300) for _ in range(8)]
    sleepers = [arena.enter("sleeper", ttl=SHORT_TTL, pauses=0.02) for _ in range(2)]
    victims = [arena.enter("victim", ttl=300) for _ in range(2)]
    for child in arena.fighters:
        child.wait_for("ready")
    for child in arena.fighters:
        child.tell()
    other = Thread(target=meanwhile)
    other.start()
    stops = disturb(arena, sleepers, victims, seconds, other, pace)
    other.join()
    arena.kill(victims[0])  # one of the last is gone without a word, too
    arena.end()

    assert arena.violations() == []
    turns = [len(child.words("turn")) for child in steady]
    assert min(turns) * 3 >= max(turns), f"unfair: {turns}"
    assert min(turns) >= seconds * pace, f"too little happened to prove anything: {turns}"
    lost = sum(len(child.words("lost")) for child in sleepers)
    assert stops >= seconds * pace, f"only {stops} stops"
    assert len(arena.killed) >= seconds * pace, f"only {len(arena.killed)} kills"
    assert lost >= seconds * pace / 7, f"only {lost} leases were lost"
    assert not [words for child in steady for words in child.words("lost")]
    nothing_is_left(arena)


def disturb(
    arena: Arena,
    sleepers: list[Child],
    victims: list[Child],
    seconds: float,
    other: Thread,
    pace: float,
) -> int:
    """Stop the ones and kill the others for the length of the fight; how many stops there were."""
    dice = random.Random(20)
    resume_at: dict[Child, float] = {}
    stops = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or other.is_alive():
        time.sleep(dice.uniform(0.02, 0.1))
        now = time.monotonic()
        for child in sleepers:
            if child in resume_at:
                if now >= resume_at[child]:
                    del resume_at[child]
                    child.resume()
            elif state_of(child.pid) == "T":  # on its own, between its check and its write
                stops += 1
                resume_at[child] = now + dice.uniform(1.2, 2.5) * SHORT_TTL
            elif dice.random() < 0.1:
                stops += 1
                child.stop()
                resume_at[child] = now + dice.uniform(0.1, 2.5) * SHORT_TTL
        if dice.random() < 0.15 * pace:
            place = dice.randrange(len(victims))
            arena.kill(victims[place])
            victims[place] = arena.enter("victim", ttl=300)
            victims[place].tell()
    return stops


def nothing_is_left(arena: Arena) -> None:
    """All are gone: no lease, no ticket, and a history that says the same as the state."""
    with LockManager.open(arena.root, store=arena.store or None) as manager:
        Auditor().check(manager)
        assert manager.active_grants() == []
        for ticket in manager.queue():
            witness = ticket.request.holder.witness
            assert witness is not None
            assert witness.pid in arena.killed, "somebody left its ticket behind"
        files = [arena.root / file for file in arena.files]
        grant = manager.try_acquire(holder="last", write_paths=files)
        assert grant is not None, "a dead owner blocks"
        manager.release(grant.id)
        assert manager.active_grants() == []
        assert manager.queue() == []
        assert fold(manager.events()).grants() == []
    if arena.store:
        return
    database = sqlite3.connect(arena.root / ".holdfast/ledger.db")
    assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()


@pytest.mark.parametrize("fence", ["fenced", "unfenced"])
def test_a_process_stopped_between_check_and_write_does_harm_only_without_the_fence(
    crowd: Crowd, tmp_path: Path, fence: str
) -> None:
    """The control: the same fighters and the same judge, with and without the fence."""
    stopped_and_overtaken(Arena(crowd, tmp_path / "repo", ["guarded/a/0"], fence=fence))


def stopped_and_overtaken(arena: Arena) -> None:
    """One fighter is stopped three times for longer than its lease, while others go on."""
    (file,) = arena.files
    steady = [arena.enter("steady", ttl=300) for _ in range(2)]
    sleeper = arena.enter("sleeper", ttl=SHORT_TTL, pauses=1)
    for child in arena.fighters:
        child.wait_for("ready")
    for child in arena.fighters:
        child.tell()
    for time_stopped in range(3):
        if time_stopped:
            sleeper.resume()
        stopped_after_its_check(sleeper)
        count = len(arena.counted(file))
        until(lambda count=count: len(arena.counted(file)) >= count + 2, "others go on")  # type: ignore[misc]
    arena.end()  # and resumes it: earlier it could begin a turn in which nothing stops it

    violations = arena.violations()
    if arena.fence == "fenced":
        assert violations == []
        assert len(sleeper.words("lost")) >= 3, sleeper.story()
        assert {code for _token, code in sleeper.words("lost")} == {"E_LOCK_EXPIRED"}
        assert not sleeper.words("counted")
        nothing_is_left(arena)
    else:
        assert violations, "without the fence nothing went wrong: the judge sees nothing"
    assert len(steady[0].words("turn")) >= 1


def stopped_after_its_check(sleeper: Child) -> None:
    """Wait until it has checked, is about to write, and has stopped again."""
    until(
        lambda: state_of(sleeper.pid) == "T" and sleeper.lines()[-1].startswith("pausing"),
        "the sleeper stops between its check and its write",
    )
