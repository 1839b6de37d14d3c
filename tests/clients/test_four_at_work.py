"""An ordinary day: a real Claude Code, a real Codex and two people in one repository.

A hundred steps in a fixed order. All four edit files of their own and, in turn, shared ones; they
run tests, read files and commit. Servers run in the background, people save files while an agent
tests, agents stop and are prompted again. An agent that tries to write the other agent's changed
file is refused, and no other request ever is.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

from helpers_cli import Terminal
from helpers_processes import LINUX_ONLY, until

from .crew import REFUSED, SERVER, Agent, Claudes, Codexes, Crew, is_refusal
from .gated import Gated
from .servers import Call, Step, Turn, bash, read

pytestmark = LINUX_ONLY

STEPS = 100
SEED = 1292
#: How long a model may wait for its turn; the whole day takes about a minute.
SECONDS = 300.0
AGENTS = ("claude", "codex")
PEOPLE = ("ann", "ben")
SHARED = ("one.txt", "two.txt")
#: More turns than one prompt ever needs.
TURNS = 200

#: A program that reads the files, takes a second, and leaves a file of its own.
CHECK = """\
import pathlib, time
names = sorted(pathlib.Path(".").glob("*.txt"))
assert all(name.read_text().endswith("end\\n") for name in names)
pathlib.Path("out/began").write_text("now\\n")
time.sleep(1)
pathlib.Path("out/report").write_text(f"{len(names)} passed\\n")
print(len(names), "passed")
"""


class Act(NamedTuple):
    """One step: an actor, an action and a file."""

    who: str
    what: str
    file: str = ""


def plan(seed: int) -> list[Act]:
    """A hundred ordinary steps."""
    return _Planner(random.Random(seed)).acts


class _Planner:
    """Plans a day in which each of the four does something reasonable at each moment."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.acts: list[Act] = []
        #: The author of each uncommitted change, and the file that each refused agent waits for.
        self._dirty: dict[str, str] = {}
        self._waits: dict[str, str] = {}
        self._serves: set[str] = set()
        #: A stop is held once; the next time is after a prompt.
        self._waited: set[str] = set()
        while len(self.acts) < STEPS - 7:
            who = chance.choice((*AGENTS, *AGENTS, *PEOPLE))
            (self._agent if who in AGENTS else self._person)(who)
        while self._dirty:
            for who in (*AGENTS, *PEOPLE):
                self._commit(who)
        while len(self.acts) < STEPS:
            self._add(chance.choice(PEOPLE), "look")

    def _add(self, who: str, what: str, file: str = "") -> None:
        self.acts.append(Act(who, what, file))

    def _own(self, who: str) -> list[str]:
        return [file for file, by in self._dirty.items() if by == who]

    def _agent(self, who: str) -> None:
        other = AGENTS[who == AGENTS[0]]
        if who in self._waits and who not in self._waited and self._chance.random() < 0.4:
            self._waited.add(who)
            self._add(who, "waits", self._waits[who])
            self._commit(other)
            return
        kinds = ["own", "shared", "shared", "shared", "commit", "test", "stop", "serve"]
        kind = self._chance.choice(kinds)
        if kind == "own":
            self._edit(who, f"{who}.txt")
        elif kind == "shared":
            file = self._chance.choice(SHARED)
            if self._dirty.get(file) == other:
                if who not in self._waits and other not in self._waits:
                    self._waits[who] = file
                    self._add(who, "refused", file)
            elif self._dirty.get(file, who) == who:
                self._edit(who, file)
        elif kind == "commit":
            self._commit(who)
        elif kind == "test":
            person = self._chance.choice(PEOPLE)
            self._dirty[f"{person}.txt"] = person
            self._add(who, "test", person)
            self._commit(person)
        elif kind == "serve" and who not in self._serves:
            self._serves.add(who)
            self._add(who, "serve")
        elif kind == "stop" and who not in self._waits:
            if who == "codex":  # its session ends too, which releases its files
                self._commit(who)
            if who not in self._waits:
                self._add(who, "stop")
                self._person(self._chance.choice(PEOPLE))
                self._add(who, "prompt")
                self._waited.discard(who)

    def _person(self, who: str) -> None:
        kind = self._chance.choice(["own", "shared", "commit", "add", "look", "test"])
        if kind == "own":
            self._edit(who, f"{who}.txt")
        elif kind == "shared":
            file = self._chance.choice(SHARED)
            if self._dirty.get(file, who) == who:
                self._edit(who, file)
        elif kind == "commit":
            self._commit(who)
        elif kind == "add" and self._own(who):
            self._add(who, "add", " ".join(self._own(who)))
        elif kind in ("look", "test"):
            self._add(who, kind)

    def _edit(self, who: str, file: str) -> None:
        self._dirty[file] = who
        self._add(who, "edit", file)

    def _commit(self, who: str) -> None:
        """An agent that waits uses a file immediately when it comes free."""
        files = self._own(who)
        if not files:
            return
        self._add(who, "commit", " ".join(files))
        for file in files:
            del self._dirty[file]
        for waiter, file in list(self._waits.items()):
            if file in files:
                del self._waits[waiter]
                self._edit(waiter, file)


class Driven:
    """An agent whose model follows the test, one step at a time."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._home = crew.gated.home()
        self._prompts = 0
        self._agent: Agent | None = None
        self._said: list[Future[Turn | Call | str]] = []
        self._turn = 0
        self.prompt()

    @property
    def name(self) -> str:
        assert self._agent is not None
        return self._agent.name

    @property
    def _script(self) -> str:
        return f"{self._crew.client}-{self._prompts}"

    def prompt(self) -> None:
        """Send it a prompt, and wait for the request to its model."""
        self._prompts += 1
        self._turn = 0
        self._said = [Future() for _ in range(TURNS)]
        steps = [self._step(one) for one in self._said]
        if self._agent is None:
            more: dict[str, Any] = {"stays": True} if self._crew.client == "claude" else {}
            self._agent = self._crew.start(self._script, *steps, home=self._home, **more)
        elif self._crew.client == "claude":
            self._crew.server.scripts[self._script] = steps
            self._agent.running.say(f"[[{self._script}]]")
        else:
            session = self._agent.session
            self._agent = self._crew.start(self._script, *steps, home=self._home, resume=session)
        self._crew.server.wait_for(self._script)

    @staticmethod
    def _step(said: Future[Turn | Call | str]) -> Step:
        return lambda _: said.result(SECONDS)

    def say(self, step: Turn | Call | str) -> None:
        """Set its model's answer."""
        self._said[self._turn].set_result(step)
        self._turn += 1

    def do(self, *calls: Call) -> str:
        """Let it use tools; the last one's result."""
        for call in calls:
            self.say(call)
            self.is_asked()
        return self._crew.server.results(self._script)[-1]

    def is_asked(self) -> None:
        """Wait for the next request to its model."""
        self._crew.server.wait_for(self._script, self._turn)

    def insert(self, line: str, file: str) -> str:
        call = self._crew.insert(file, line, "end")
        if self._crew.client == "claude":
            return self.do(read(self._crew.gated.root / file), call)
        return self.do(call)

    def shell(self, command: str) -> str:
        return self.do(self._crew.shell(command))

    def serve(self) -> str:
        if self._crew.client == "claude":
            return self.do(bash(SERVER, background=True))
        return self.shell(f"setsid nohup sh -c '{SERVER}' >/dev/null 2>&1 </dev/null &")

    def stop(self) -> None:
        """Let it stop, and wait until it has."""
        assert self._agent is not None
        running = self._agent.running
        before = running.said().stdout.count('"type":"result"')
        self.say("Done.")
        if self._crew.client == "claude":
            until(
                lambda: running.said().stdout.count('"type":"result"') > before,
                "its user was told",
            )
        else:
            self._agent.ends()


class Day:
    """The four of them, and the effects of each step."""

    def __init__(self, gated: Gated, agents: dict[str, Driven], people: dict[str, Terminal]):
        self._gated, self._agents, self._people = gated, agents, people
        #: The lines of each file, in the order in which they were written, and by whom.
        self.lines: dict[str, list[str]] = {}
        #: Which agent has which file, and waits for which.
        self.held: dict[str, str] = {}
        self._waits: dict[str, str] = {}
        self._number = 0

    def act(self, act: Act) -> None:
        self._number += 1
        (self._agent if act.who in AGENTS else self._person)(act)
        assert self._gated.held() == {
            file: self._agents[who].name for file, who in self.held.items()
        }

    def _line(self, who: str) -> str:
        return f"{self._number} by {who}"

    def _wrote(self, who: str, file: str) -> None:
        self.lines.setdefault(file, []).append(self._line(who))

    def _agent(self, act: Act) -> None:
        who, what, file = act
        agent = self._agents[who]
        if what == "edit":
            said = agent.insert(self._line(who), file)
            assert not is_refusal(said), said
            self._wrote(who, file)
            self.held[file] = who
        elif what == "refused":
            owner = self.held[file]
            assert owner != who
            said = agent.insert(self._line(who), file)
            assert (
                f"{REFUSED}{file} has been locked for writing by {self._agents[owner].name}" in said
            )
            self._waits[file] = who
        elif what == "commit":
            said = agent.shell(f"git commit -q -m '{self._line(who)}' {file} && echo went well")
            assert "went well" in said
            self._committed(act)
            for waiter in AGENTS:  # its model is asked again, without a prompt
                self._agents[waiter].is_asked()
        elif what == "waits":
            before = len(self._gated.happened("stop_held"))
            agent.say("I wait.")
            until(lambda: len(self._gated.happened("stop_held")) > before, "its stop is held")
        elif what == "test":
            self._test(who, person=file)
        elif what == "serve":
            assert not is_refusal(agent.serve())
        elif what == "stop":
            agent.stop()
        else:
            agent.prompt()

    def _test(self, who: str, person: str) -> None:
        """A person saves a file while the agent's tests run."""
        began = self._gated.root / "out" / "began"
        began.unlink(missing_ok=True)
        said: list[str] = []
        run = threading.Thread(
            target=lambda: said.append(self._agents[who].shell("python3 check.py"))
        )
        run.start()
        until(began.exists, "the tests run")
        self._save(person, f"{person}.txt")
        run.join()
        assert "passed" in said[0]

    def _person(self, act: Act) -> None:
        who, what, file = act
        if what == "edit":
            self._save(who, file)
        elif what == "commit":
            self._does(who, f"git commit -q -m '{self._line(who)}' {file}")
            self._committed(act)
        elif what == "add":
            self._does(who, f"git add {file}")
        elif what == "test":
            self._does(who, "python3 check.py")
        else:
            self._does(who, "git status --short && git diff --stat && git log --oneline -3")

    def _does(self, who: str, line: str) -> None:
        done = self._people[who].do(line)
        assert done.code == 0, done

    def _save(self, who: str, file: str) -> None:
        """Ann's editor writes another file and renames it into place, the other writes in place."""
        path = self._gated.root / file
        text = path.read_text().removesuffix("end\n") + f"{self._line(who)}\nend\n"
        if who == "ann":
            new = path.with_name(f".{file}.swp")
            new.write_text(text)
            os.replace(new, path)
        else:
            path.write_text(text)
        self._wrote(who, file)

    def _committed(self, act: Act) -> None:
        assert self._gated.git("log", "-1", "--format=%s") == f"{self._line(act.who)}\n"
        for file in act.file.split():
            self.held.pop(file, None)
            if file in self._waits:  # handed over
                self.held[file] = self._waits.pop(file)
            shown = self._gated.git("show", f"HEAD:{file}").splitlines()
            assert shown == [*self.lines[file], "end"]


@contextmanager
def terminals(gated: Gated) -> Iterator[dict[str, Terminal]]:
    opened = {who: Terminal(gated) for who in PEOPLE}
    try:
        yield opened
    finally:
        for terminal in opened.values():
            terminal.close()


def test_a_day_has_a_bit_of_everything() -> None:
    acts = plan(SEED)
    assert len(acts) == STEPS
    assert acts == plan(SEED)
    seen = Counter((act.who in AGENTS, act.what) for act in acts)
    for what in ("edit", "refused", "commit", "test", "serve", "stop", "prompt", "waits"):
        assert seen[True, what] >= 2, what
    for what in ("edit", "commit", "add", "look", "test"):
        assert seen[False, what] >= 2, what
    assert {act.who for act in acts if act.what == "refused"} == {*AGENTS}
    for who in (*AGENTS, *PEOPLE):
        files = {act.file for act in acts if act.who == who and act.what == "edit"}
        assert files & {*SHARED}, who


def test_two_agents_and_two_people_do_a_hundred_steps_and_no_refusal_is_wrong(
    gated: Gated, claudes: Claudes, codexes: Codexes
) -> None:
    files = [f"{who}.txt" for who in (*AGENTS, *PEOPLE)] + list(SHARED)
    for file in files:
        gated.write(file, "end\n")
    gated.write("check.py", CHECK)
    gated.write(".gitignore", "out\n")
    (gated.root / "out").mkdir()
    gated.git("add", *files, "check.py", ".gitignore")
    for file in ("a.txt", "b.txt"):
        gated.git("rm", "-q", file)
    gated.init(hold_seconds=0)
    start = time.monotonic()
    acts = plan(SEED)
    with terminals(gated) as people:
        agents = {"claude": Driven(claudes), "codex": Driven(codexes)}
        day = Day(gated, agents, people)
        for act in acts:
            print(f"{time.monotonic() - start:6.2f}", *act)
            day.act(act)
    print(f"{time.monotonic() - start:6.2f} over")

    assert gated.git("status", "--short") == ""
    for file in files:
        assert gated.text(file).splitlines() == [*day.lines[file], "end"]
        history = gated.git("log", "--reverse", "--format=", "-p", "-U0", "--", file)
        changes = re.findall(r"^[+-](?![+-]{2}).*", history, re.M)
        assert changes == ["+end", *(f"+{line}" for line in day.lines[file])]
    refused = [act for act in acts if act.what == "refused"]
    beats = [event["data"] for event in gated.happened("contention_heartbeat")]
    assert [beat["agent"] for beat in beats] == [agents[act.who].name for act in refused]
    assert [beat["blocked"] for beat in beats] == [[act.file] for act in refused]
    assert gated.happened("damage") == []
    assert gated.blockers() == []
