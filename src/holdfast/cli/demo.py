"""demo: agents, a crash, a pause, a circle and a person, in a repository of their own.

The agents are scripted and their thinking is a pause. All the rest is real: processes of their
own, files, the embedded store, `kill -9`, SIGSTOP and the command line. Nothing is printed that
was not read from the ledger, told by an agent, or measured; and at the end it is checked by code
that shares nothing with the code that decided.

It needs no network and no account, and leaves nothing behind unless it is told to.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from holdfast.cli import DONE, FAILED
from holdfast.cli.demo_audit import Finding, agents_at_once, audit
from holdfast.cli.demo_cast import Actor, DemoError, clean_environment
from holdfast.cli.demo_show import Show
from holdfast.cli.printing import document, quoted
from holdfast.manager.liveness import sees_processes
from holdfast.manager.manager import LockManager
from holdfast.manager.paths import LEDGER_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.parser import Call

FILES = (
    "app/models/user.py", "app/models/order.py", "app/models/invoice.py",
    "app/api/users.py", "app/api/orders.py", "app/api/billing.py",
    "app/jobs/mailer.py", "app/jobs/reports.py", "app/settings.py", "app/routes.py",
    "tests/test_users.py", "tests/test_orders.py",
)  # fmt: skip

#: Who does what in the first scene: files and resources to write, folders to read, seconds.
TASKS: dict[str, tuple[tuple[list[str], list[str], float], ...]] = {
    "ann": (
        (["app/models/user.py", "app/api/users.py", "port:5432"], [], 1.1),
        (["app/routes.py", "app/api/users.py"], [], 1.0),
        (["app/models/user.py", "tests/test_users.py", "port:5432"], [], 1.1),
    ),
    "ben": (
        (["app/models/order.py", "app/api/orders.py"], [], 1.3),
        (["app/routes.py", "app/api/orders.py"], [], 1.0),
        (["app/models/invoice.py", "app/settings.py"], [], 0.8),
    ),
    "cleo": (
        (["app/models/invoice.py", "app/api/billing.py"], [], 1.4),
        (["app/settings.py", "app/jobs/mailer.py"], [], 1.0),
        (["app/api/billing.py"], [], 0.8),
    ),
    "dan": (
        (["app/jobs/mailer.py", "app/jobs/reports.py"], [], 1.0),
        (["app/settings.py", "app/routes.py"], [], 1.1),
        (["app/jobs/reports.py", "app/jobs/mailer.py"], [], 1.0),
    ),
    "eve": (
        (["tests/test_users.py", "tests/test_orders.py"], [], 1.3),
        (["tests/test_orders.py", "port:5432"], [], 1.1),
        (["tests/test_users.py"], [], 0.8),
    ),
    "finn": (
        ([], ["app/models/"], 1.0),
        ([], ["app/models/"], 0.8),
    ),
}

SHORT_LEASE_SECONDS = 1.5
#: Longer than anything here takes, even on a machine that has much else to do.
WAIT_SECONDS = 20.0


def demo(call: Call) -> int:
    """Play it. The exit code is 1 if anything turned out not to be as promised."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-demo-"))
    director = Director(folder, Show(quiet=call.flag("json")))
    # Whoever ends it must not leave agents and folders behind.
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        result = director.play()
    finally:
        director.close()
        if not call.flag("keep"):
            shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
    if call.flag("json"):
        document({**result, "folder": folder if call.flag("keep") else None})
    elif call.flag("keep"):
        director.show.say("Kept. Look at it with:")
        director.show.paste(f"holdfast -C {quoted([folder])} log")
    return DONE if result["passed"] else FAILED


class Director:
    """Plays the scenes one after the other and keeps what came of them."""

    def __init__(self, root: str, show: Show) -> None:
        self.show = show
        self._root = root
        self._cast: dict[str, Actor] = {}
        self._manager: LockManager | None = None
        self._published: list[tuple[str, str]] = []
        self._refused: list[str] = []
        self._findings: list[Finding] = []
        self._facts: dict[str, Any] = {}

    def close(self) -> None:
        """Leave no process behind."""
        for actor in self._cast.values():
            actor.close()
        if self._manager is not None:
            self._manager.close()

    def play(self) -> dict[str, Any]:
        """All scenes, then the report."""
        begin = time.monotonic()
        self._set_up()
        try:
            for scene in self._scenes():
                scene()
        except DemoError as error:  # the agents no longer play along: look at what there is
            self._expect("all scenes could be played", False, error.message)
        self._facts["seconds"] = round(time.monotonic() - begin, 2)
        return self._report()

    def _scenes(self) -> list[Callable[[], None]]:
        if hasattr(signal, "SIGSTOP"):
            return [self._parallel_work, self._crash, self._pause, self._circle, self._person]
        self.show.say("A paused agent is left out: this system cannot stop a process.")
        return [self._parallel_work, self._crash, self._circle, self._person]

    # The stage

    def _set_up(self) -> None:
        for file in FILES:
            path = os.path.join(self._root, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as new:
                new.write(f"# {file}\n")
        git = shutil.which("git")
        if git is not None:
            subprocess.run(
                [git, "-C", self._root, "init", "--quiet"], check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        # Made here and now, so that it is the nearest whatever lies above the temporary folder.
        os.mkdir(f"{self._root}/{LEDGER_FOLDER}")
        self._manager = LockManager.open(self._root)
        self._cast = {name: Actor(self._root, name) for name in TASKS}
        for actor in self._cast.values():
            actor.answer()
        kind = "git repository" if git else "folder (there is no git here)"
        self.show.title("One repository, many agents")
        self.show.say(
            f"{len(self._cast)} scripted agents, each a process of its own, in a made-up {kind} "
            f"with {len(FILES)} files. Their thinking is a pause; everything else is real."
        )
        if not proves_death():
            self.show.say(
                "This system does not show whether a process lives, so a dead owner's lease ends "
                "by time here."
            )

    def _catch_up(self) -> None:
        assert self._manager is not None
        self.show.tell(self._manager.events(self.show.seen))

    # The scenes

    def _parallel_work(self) -> None:
        """Everybody at once, with files, folders and a port in the same requests."""
        self.show.title("Six at once: all or nothing, files and a port together")
        assert self._manager is not None
        begin = time.monotonic()
        for name, tasks in TASKS.items():
            for number, (write, read, thinking) in enumerate(tasks, 1):
                self._cast[name].tell(
                    "work", write=write, read=read, thinking=thinking, reason=f"task {number}"
                )
        total = sum(map(len, TASKS.values()))
        end = begin + 60
        while self.show.given_back < total and time.monotonic() < end:
            self._manager.store.wait(self.show.seen, 0.5)
            self._catch_up()
        wall = time.monotonic() - begin
        answers = [self._cast[name].answer() for name, tasks in TASKS.items() for _ in tasks]
        refused = [answer["why"] for answer in answers if "refused" in answer]
        done = [answer for answer in answers if "edits" in answer]
        self._published += [(file, line) for one in done for file, line in one["edits"]]
        reads = sum(1 for one in done if not one["edits"])
        self._expect("all tasks were done", not refused, (refused or [f"{len(done)} tasks"])[0])
        self._expect(
            "nothing changed under the reader of a folder",
            all(answer["steady"] for answer in done),
            f"{reads} readings of app/models/",
        )
        self._facts |= {
            "tasks": len(done),
            "wall_seconds": round(wall, 2),
            "work_seconds": round(sum(answer["worked"] for answer in done), 2),
            "agents_at_once": agents_at_once(list(self._manager.events())),
            "waits": self.show.waits,
        }

    def _crash(self) -> None:
        """Somebody dies with locks in its hands."""
        self.show.title("A crash: kill -9 in the middle of an edit")
        eve, dan = self._cast["eve"], self._cast["dan"]
        files = ["app/settings.py", "app/routes.py"]
        ttl = 1800.0 if proves_death() else SHORT_LEASE_SECONDS
        eve.do("take", write=files, ttl=ttl, reason="will not live to finish this")
        self._refused.append(_told(eve.do("draft", path=files[0]), "drafted"))
        self._catch_up()
        eve.kill()
        self.show.note("eve is killed")
        answer = dan.do("take", write=files, reason="next in line")
        self._catch_up()
        why = self.show.reaped.get("eve", "")
        if "token" in answer:
            self._publish(dan, files)
        dan.do("give")
        seconds = answer["seconds"]
        self.show.say(f"dan asked after the kill and had both files in {_short(seconds)}.")
        self._facts["crash"] = {"why": why, "next_had_it_after_seconds": round(seconds, 4)}
        wanted = "owner dead" if proves_death() else "expired"
        self._expect("the dead owner did not block", why == wanted, f"reaped: {why or 'not'}")

    def _pause(self) -> None:
        """Somebody sleeps past its lease, and wakes up believing that it still holds."""
        self.show.title("A pause: stopped past its lease, then it goes on")
        ben, cleo = self._cast["ben"], self._cast["cleo"]
        file = "app/models/invoice.py"
        old = ben.do("take", write=[file], ttl=SHORT_LEASE_SECONDS, reason="a short lease")
        self._refused.append(_told(ben.do("draft", path=file), "drafted"))
        self._catch_up()
        ben.stop()
        self.show.note(f"ben is stopped (SIGSTOP); its lease is {SHORT_LEASE_SECONDS:g} s")
        new = cleo.do("take", write=[file], reason="does not wait for ever")
        self._catch_up()
        self._publish(cleo, [file])
        cleo.do("give")
        ben.go_on()
        self.show.note("ben goes on, and publishes what it had written before")
        answer = ben.do("publish", path=file)
        self._catch_up()
        self.show.refusal("ben", answer)
        ben.do("give")
        self._facts["pause"] = {
            "refused": answer.get("refused", ""),
            "old_token": old.get("token"),
            "new_token": new.get("token"),
        }
        passed = answer.get("refused") == "E_LOCK_EXPIRED"
        self._expect("the late writer was fenced", passed, answer.get("refused", "let through"))

    def _circle(self) -> None:
        """Two who would wait for each other for ever."""
        self.show.title("A circle: two who would wait for each other")
        ann, dan = self._cast["ann"], self._cast["dan"]
        users, orders = "app/api/users.py", "app/api/orders.py"
        ann.do("take", write=[users])
        dan.do("take", write=[orders])
        waits = self.show.waits
        ann.tell("take", write=[orders])
        self._until_waits(waits + 1)
        answer = dan.do("take", write=[users])
        self._catch_up()
        self.show.refusal("dan", answer)
        dan.do("give")
        got = ann.answer()
        self._catch_up()
        if "token" in got:
            self._publish(ann, [orders])
        ann.do("give")
        self._catch_up()
        self._facts["circle"] = {
            "refused": answer.get("refused", ""),
            "after_seconds": round(answer["seconds"], 4),
        }
        passed = answer.get("refused") == "E_LOCK_CYCLE" and "token" in got
        self._expect("the circle was refused at once", passed, _short(answer["seconds"]))

    def _until_waits(self, count: int) -> None:
        assert self._manager is not None
        end = time.monotonic() + WAIT_SECONDS
        while self.show.waits < count:
            if time.monotonic() > end:
                raise DemoError("nobody came to wait", hint="try again on a calmer machine")
            self._manager.store.wait(self.show.seen, 0.5)
            self._catch_up()

    def _person(self) -> None:
        """Somebody at the command line, whom agents respect like each other."""
        self.show.title("A person: holdfast lock, from the command line")
        finn, file = self._cast["finn"], "app/settings.py"
        self._command("lock", file, "--reason", "I am reading this one")
        answer = finn.do("take", write=[file], wait=False)
        self._catch_up()
        self.show.refusal("finn", answer)
        self._command("unlock", file)
        later = finn.do("take", write=[file], wait=False)
        if "token" in later:
            self._publish(finn, [file])
        finn.do("give")
        self._catch_up()
        self._facts["person"] = {"refused": answer.get("refused", "")}
        passed = answer.get("refused") == "E_LOCK_CONFLICT" and "token" in later
        self._expect("a person's lock keeps an agent out", passed, answer.get("refused", "not"))

    def _command(self, *words: str) -> None:
        """Run the real command, and show what it says."""
        self.show.note(f"$ holdfast {quoted(words)}")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "holdfast", *words], cwd=self._root,
            env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        said = (done.stdout or done.stderr).strip().splitlines()
        if done.returncode or not said:
            raise DemoError(f"holdfast {words[0]} failed: {' '.join(said[-1:])}")
        self.show.note(said[0])

    # What came of it

    def _publish(self, actor: Actor, files: list[str]) -> None:
        for file in files:
            self._published.append((file, _told(actor.do("edit", path=file), "edit")[1]))

    def _expect(self, question: str, passed: bool, detail: str) -> None:
        self._findings.append(Finding(question, passed, detail))

    def _report(self) -> dict[str, Any]:
        assert self._manager is not None
        events = list(self._manager.events())
        files = {file: self._added(file) for file in FILES}
        self._findings += audit(events, files, self._published, self._refused)
        edits = sum(map(len, files.values()))
        result = {
            "passed": all(finding.passed for finding in self._findings),
            **self._facts,
            "edits": edits,
            "events": len(events),
            "conflicts_avoided": self.show.waits + self.show.refusals,
            "checks": [finding._asdict() for finding in self._findings],
        }
        self.show.report(result, self._findings, len(FILES))
        return result

    def _added(self, file: str) -> list[str]:
        with open(os.path.join(self._root, file), encoding="ascii") as text:
            return text.read().splitlines()[1:]


def proves_death() -> bool:
    """Whether this system shows that a process is gone."""
    return os.name == "posix" and (sys.platform != "linux" or sees_processes())


def _told(answer: dict[str, Any], what: str) -> Any:
    """What an agent must have been able to do, or the scene makes no sense."""
    if what not in answer:
        raise DemoError(f"an agent was refused: {answer.get('why')}", hint=answer.get("hint", ""))
    return answer[what]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
