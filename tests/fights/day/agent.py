"""An agent on an ordinary day: its requests to its hooks, and its work.

Each step of an agent is cut into pieces, and other agents work in between: the agent requests an
edit, others work, it writes the file; or it requests a command, others work, the command runs.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from .client import Client

if TYPE_CHECKING:
    from .repository import Day

STEPS = 200
PYTHON = f"{sys.executable} -I -S"
#: Settings in real seconds, shorter than usual.
RETRY_SECONDS, HOLD_SECONDS, IDLE_SECONDS = 0.8, 0.15, 1.5
SHARED = [f"shared/part{number}.py" for number in range(5)]
Step = Generator[None, None, Any]


class Agent:
    """One agent: a session of a client, with sub-agents."""

    def __init__(self, day: Day, name: str, client: str) -> None:
        self.day, self.name, self.record = day, name, day.record
        self.random = random.Random(f"{day.seed} {name}")
        self.client = Client(day.folder, day.root, client, f"session-0000-{name}")
        self.own = [f"app/{name}{number}.py" for number in range(4)]
        #: For each of its sub-agents, the files that it was refused and when their retries are due.
        self.waits: dict[str, dict[str, float]] = {}

    # Hooks

    def tell(self, event: str, agent: str = "", *, quick: bool = True, **data: Any) -> Step:
        """Send an event to a hook; its answer."""
        said = {
            "session_id": self.client.session, "cwd": str(self.day.root), "hook_event_name": event,
            **data,
        }  # fmt: skip
        if agent:
            said |= {"agent_id": agent, "agent_type": "general"}
        text = json.dumps(said)
        if quick and self.random.random() < 0.01:
            self.day.counts["through the real hook"] += 1
            answer = self.client.ask_hook(text)
        else:
            answer = yield from self.client.ask(text, quick=quick)
        printed = json.dumps(answer)
        assert "holdfast undo" not in printed, ("false alarm", self.name, answer)
        if "came free and is yours" in printed:
            self.day.counts["told that a file came free"] += 1
        return answer

    def who(self, agent: str) -> str:
        return f"{self.name}/{agent}" if agent else self.name

    def ask(self, paths: list[str], agent: str, **tool: Any) -> Step:
        """Ask the hook before a tool call: the reason of its refusal, or nothing. Permitted files
        are claimed."""
        begun = self.record.now()
        who = self.who(agent)
        lines = [self.record.claim(path, who, weak=True) for path in paths]
        quick = all(self.record.is_free(path, who) for path in paths)
        answer = yield from self.tell("PreToolUse", agent, quick=quick, **tool)
        said = answer.get("hookSpecificOutput", {})
        refused = said.get("permissionDecisionReason", "")
        self.record.judge(who, paths, begun, refused)
        if refused and "waiting_for_instruction" not in refused:
            # It is in line: a file that comes free is its own, whether it still wants it or not.
            self.day.counts["asked again too early" if agent in self.waits else "denied"] += 1
            for path in paths:
                self.waits.setdefault(agent, {}).setdefault(path, begun + RETRY_SECONDS)
            return refused
        for line in lines:
            line.ends_early = line.ends = self.record.now()
        waited = self.over(agent, paths)
        if refused:
            yield from self.blocked(begun, agent, answer)
            return refused
        if waited:
            self.day.counts["got what it was refused"] += 1
        for path in paths:
            self.record.claim(path, who)
        return ""

    def over(self, agent: str, paths: Iterable[str]) -> list[str]:
        """End the agent's waits for these files; the files that it did wait for."""
        waits = self.waits.pop(agent, {})
        waited = [path for path in paths if waits.pop(path, None)]
        if waits:
            self.waits[agent] = waits
        return waited

    def blocked(self, begun: float, agent: str, answer: dict[str, Any]) -> Step:
        """The agent is blocked: every call is refused until the user sends a prompt."""
        self.day.counts["blocked"] += 1
        self.record.rest(self.who(agent), begun)
        assert answer.get("continue") is (None if self.client.client == "codex" else False)
        tool = self.tool([self.own[0]])
        again = yield from self.tell("PreToolUse", agent, **tool)
        assert "waiting_for_instruction" in again["hookSpecificOutput"]["permissionDecisionReason"]
        yield
        if not agent:
            yield from self.prompt()

    def prompt(self) -> Step:
        """The user's prompt: due retries are made, and files that are free go to the agent for a
        while."""
        begun = self.record.now()
        for path in self.waits.get("", ()):  # it may have left the line at its stop
            self.record.claim(path, self.name, weak=True)
        yield from self.tell("UserPromptSubmit", prompt="go on")
        self.record.wake(self.name)
        due = [path for path, at in self.waits.get("", {}).items() if at + 0.3 < begun]
        self.record.lapse(self.name, self.over("", due))

    def end_turn(self, agent: str = "") -> Step:
        """End the turn. The stop is held open for the files that the agent waits for: if one comes
        free, the agent goes on and stops again."""
        event = "SubagentStop" if agent else "Stop"
        who = self.who(agent)
        waits = list(self.waits.get(agent, ()))
        self.record.loosen(who)
        begun = self.record.now()
        answer = yield from self.tell(event, agent, quick=not waits, stop_hook_active=False)
        self.over(agent, [path for path in waits if f"blocked file    {path}" in str(answer)])
        if answer.get("decision") == "block":
            assert "came free and is yours" in answer["reason"], answer
            self.day.counts["went on at its stop"] += 1
            came = [path for path in waits if path in answer["reason"]]
            assert came, (waits, answer)
            if agent:  # a sub-agent gets what its sibling left to their parent
                self.record.move(came, self.name, who)
            for path in came:
                self.record.claim(path, who)
            if self.client.client == "codex":
                yield from self.edit(sorted(set(came)), agent)
            else:
                yield from self.edit([came[0]], agent)
            self.record.loosen(who)
            begun = self.record.now()
            answer = yield from self.tell(event, agent, stop_hook_active=True)
            assert answer.get("decision") is None, answer
        elif waits and self.record.now() - begun > HOLD_SECONDS:
            self.day.counts["waited at its stop in vain"] += 1
        if agent:
            self.record.end(who, self.waits.pop(agent, ()), weak=True)
        else:
            self.record.rest(self.name, begun)

    def tool(self, paths: list[str]) -> dict[str, Any]:
        if self.client.client == "codex":
            verbs = [
                f"*** {'Update' if (self.day.root / path).exists() else 'Add'} File: {path}\n"
                + ("@@\n+a line\n" if (self.day.root / path).exists() else "+a line\n")
                for path in paths
            ]
            patch = f"*** Begin Patch\n{''.join(verbs)}*** End Patch\n"
            return {"tool_name": "apply_patch", "tool_input": {"command": patch}}
        (path,) = paths
        file = f"{self.day.root}/{path}"
        if (self.day.root / path).exists():
            fields = {"file_path": file, "old_string": "a", "new_string": "b"}
            return {"tool_name": "Edit", "tool_input": fields}
        return {"tool_name": "Write", "tool_input": {"file_path": file, "content": "x"}}

    def line(self) -> str:
        return f"# {self.name} wrote {self.day.new()} x{self.random.randrange(10**9)}"

    def edit(self, paths: list[str], agent: str = "", *, blanks: str = "") -> Step:
        """Edit files, all in one call; the reason if that is refused."""
        tool = self.tool(paths)
        refused = yield from self.ask(paths, agent, **tool)
        if refused:
            return refused
        yield
        for path in paths:
            line = self.line()
            self.write(path, line + blanks)
            self.record.wrote(path, self.who(agent), line)
        yield
        more: dict[str, Any] = {
            "tool_response": "Exit code: 0" if self.client.client == "codex" else {}
        }
        yield from self.tell("PostToolUse", agent, **tool, **more)
        return ""

    def write(self, path: str, line: str) -> None:
        """Add to the present content by renaming a new file over it, as clients do."""
        file = self.day.root / path
        old = file.read_text().splitlines() if file.exists() else []
        old.insert(self.random.randint(0, len(old)), line)
        fresh = file.with_name(f".{file.name}.{self.name}.tmp")
        file.parent.mkdir(exist_ok=True)
        fresh.write_text("\n".join(old) + "\n")
        fresh.replace(file)

    def shell(
        self,
        command: str,
        paths: list[str] | None = None,
        agent: str = "",
        *,
        code: int | None = 0,
        commits: list[str] | None = None,
    ) -> Step:
        """Run a command that touches these files and no others that an agent has. Its exit code, or
        None if it was refused."""
        tool: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": command}}
        begun = self.record.now()
        if paths is None:
            answer = yield from self.tell("PreToolUse", agent, **tool)
            refused = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
            self.record.judge(self.who(agent), [], begun, refused)
        elif (yield from self.ask(paths, agent, **tool)):
            return None
        yield
        run = self.record.now()
        done = self.client.run(command, agent)
        if commits is not None:
            refused = done.complained if done.code else ""
            self.record.judge(self.name, commits, run, refused)
            self.record.end(self.name, () if refused else commits)
        else:
            assert code is None or done.code == code, (command, done)
        yield
        if done.code and self.client.client == "claude":
            failed: dict[str, Any] = {"error": f"Exit code {done.code}", "is_interrupt": False}
            yield from self.tell("PostToolUseFailure", agent, **tool, **failed)
        else:
            yield from self.tell("PostToolUse", agent, **tool, tool_response="")
        return done.code

    # Its day

    def life(self) -> Step:
        yield from self.tell("SessionStart", source="startup")
        yield from self.prompt()
        kinds, weights = zip(*KINDS.items(), strict=True)
        crash = self.random.randrange(STEPS)
        for number in range(STEPS):
            kind = self.random.choices(kinds, weights)[0]
            if self.is_waited_for() and self.random.random() < 0.2:
                kind = Agent.commit
            if number == crash:
                kind = Agent.crash_and_resume
            self.day.counts[kind.__name__] += 1
            yield from kind(self)
            yield
        while self.day.topic == self.name:
            yield from self.commit(sorted(self.day.changed()))
            yield from self.topic()
            for _ in range(20):  # others that are still at work may be in the way
                yield
        yield from self.commit(sorted(self.day.changed()))
        yield from self.end_turn()
        yield from self.prompt()  # the agent may have been blocked
        yield from self.end_turn()
        yield
        yield from self.tell("SessionEnd", reason="other")
        self.record.end(self.name)

    def is_waited_for(self) -> bool:
        """Whether another agent is in line for a file that this one has changed."""
        others = [agent for agent in self.day.agents if agent is not self]
        wanted = {path for agent in others for path in agent.waits.get("", ())}
        return not wanted.isdisjoint(self.record.mine(self.name))

    def a_file(self) -> str:
        """A file to edit: its own, or a shared one that no other agent has just now."""
        free = [path for path in self.own if self.record.is_free(path, self.name)]
        shared = [path for path in SHARED if self.record.is_free(path, self.name)]
        if shared and (not free or self.random.random() < 0.35):
            return self.random.choice(shared)
        return self.random.choice(free) if free else self.new_file()

    def new_file(self) -> str:
        path = f"app/{self.name}_new{self.day.new()}.py"
        self.own.append(path)
        return path

    def edit_one(self) -> Step:
        yield from self.edit([self.a_file()], blanks=self.random.choice(("", "", "   ")))

    def edit_new(self) -> Step:
        yield from self.edit([self.new_file()])

    def edit_several(self) -> Step:
        paths = sorted({self.a_file() for _ in range(3)})
        if self.client.client == "codex":
            yield from self.edit(paths)
        else:
            for path in paths:
                if self.record.is_free(path, self.name):
                    yield from self.edit([path])

    def edit_that_fails(self) -> Step:
        """An edit that is permitted and not made: the client found that it does not apply."""
        path = self.a_file()
        if not (yield from self.ask([path], "", **self.tool([path]))):
            self.day.counts["edits that the client gave up"] += 1

    def run_tests(self) -> Step:
        """Run real tests: they import the files of all agents and leave caches beside them."""
        yield from self.shell(
            "mkdir -p .pytest_cache build && date > .pytest_cache/last && "
            f"{PYTHON} test_all.py > build/test.log 2>&1"
        )

    def run_compiler(self) -> Step:
        yield from self.shell(f"{PYTHON} -m compileall -q shared > build.log 2>&1")

    def log(self) -> Step:
        yield from self.shell("mkdir -p build; echo done >> build/out.txt; tee all.log <<< done")

    def install_packages(self) -> Step:
        yield from self.shell(
            "mkdir -p node_modules/p{1..60}; for i in {1..60}; do echo $i > node_modules/p$i/a.js; "
            "done; echo '{}' > node_modules/.package-lock.json"
        )

    def look_around(self) -> Step:
        words = ["git status --short", "grep -rn wrote app | head", "git log --oneline | head -3",
                 "cat shared/*.py > /dev/null", "git diff --stat"]  # fmt: skip
        yield from self.shell(self.random.choice(words))

    def fail(self) -> Step:
        yield from self.shell("ls app; exit 3", code=3)

    def format(self) -> Step:
        """Format its own files, some of which it did not hold before."""
        mine = [path for path in self.record.mine(self.name) if (self.day.root / path).exists()]
        mine += [path for path in self.own[:2] if self.record.is_free(path, self.name)]
        if mine:
            names = " ".join(sorted(set(mine)))
            for path in mine:  # its own afterwards if it was changed, unless that cannot be told
                self.record.claim(path, self.name, weak=True)
            yield from self.shell(f"{PYTHON} fmt.py {names}")

    def stream_edit(self) -> Step:
        """A write that a command line plainly shows is treated like an edit."""
        path = self.a_file()
        line = self.line()
        kinds = [f"cat >> {path} <<'EOF'\n{line}\nEOF", f"echo '{line}' | tee -a {path}"]
        if (self.day.root / path).exists():
            kinds.append(f"sed -i '1a {line}' {path}")
        if (yield from self.shell(self.random.choice(kinds), [path])) == 0:
            self.record.wrote(path, self.name, line)

    def move(self) -> Step:
        """Rename a new file of its own."""
        some = [
            path for path in self.own[4:]
            if (self.day.root / path).exists() and self.record.is_free(path, self.name)
        ]  # fmt: skip
        if some:
            old = self.random.choice(some)
            new = self.new_file()
            yield from self.shell(f"mv {old} {new}", [old, new])
            self.own.remove(old)

    def commit(self, these: list[str] | None = None) -> Step:
        """Commit all that the agent has changed, or a part of it."""
        mine = self.record.mine(self.name) if these is None else these
        names = sorted(
            path for path in self.day.changed()
            if self.record.is_free(path, self.name)
            and (path in mine or (these is None and path.startswith(f"app/{self.name}")))
        )  # fmt: skip
        if these is None and self.random.random() < 0.3:
            names = names[:2]
        if not names:
            return
        words = " ".join(names)
        command = f"git add -A -- {words} && git commit -q -m {self.name} -- {words}"
        yield from self.shell(command, commits=names)

    def pull(self) -> Step:
        if self.random.random() < 0.7:
            self.day.someone_elsewhere_pushes()
        command = "git pull -q --no-rebase --no-edit origin main"
        if self.day.topic:
            command = f"git fetch -q && {command}"
        code = yield from self.shell(command, code=None)
        # Files that a refused commit added stay in the index, and then git refuses to merge.
        assert code in (0, None) or self.day.git("diff", "--cached", "--name-only").strip(), code
        if not self.day.topic and self.random.random() < 0.5:
            yield from self.shell("git push -q origin main", code=None)

    def topic(self) -> Step:
        """Work on a branch, and switch back as soon as that affects no other agent."""
        if not self.day.topic:
            self.day.topic = self.name
            yield from self.shell(f"git switch -q -c topic{self.day.new()}")
            return
        if self.day.topic != self.name:
            return
        yield from self.commit()
        meets = sorted(self.day.differs("main"))
        branch = self.day.git("branch", "--show-current").strip()
        done = yield from self.tree(f"git switch -q main && git merge -q --ff-only {branch}", meets)
        self.day.counts["back refused" if done is None else "back on main"] += 1
        if done == 0:
            self.day.topic = ""
        elif done is not None:  # git itself refused: there was work that no agent has any more
            assert self.day.git("branch", "--show-current").strip() == branch

    def tree(self, command: str, meets: list[str]) -> Step:
        """Run a git command on the whole tree that touches these files; its exit code, or None if
        refused."""
        begun = self.record.now()
        tool: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": command}}
        answer = yield from self.tell("PreToolUse", **tool)
        refused = answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
        self.record.judge(self.name, meets, begun, refused)
        if refused:
            return None
        code = self.client.run(command).code
        yield from self.tell("PostToolUse", **tool, tool_response="")
        return code

    def stop(self) -> Step:
        """End the turn; the user comes back soon, or after a while."""
        for_long = self.random.random() < 0.4
        yield from self.end_turn()
        if for_long:
            until = self.record.now() + IDLE_SECONDS + 0.1
            while self.record.now() < until:
                time.sleep(0.001)
                yield
            self.day.counts["idle for long"] += 1
        else:
            for _ in range(self.random.randrange(5)):
                yield
        yield from self.prompt()

    def crash_and_resume(self) -> Step:
        self.record.crash(self.name)
        self.client.kill()
        self.client.start()
        yield from self.tell("SessionStart", source="resume")
        yield from self.prompt()

    # Sub-agents

    def delegate(self) -> Step:
        """Start two sub-agents: one takes over what its parent has, and both give back what they
        have."""
        one, two = f"a{self.day.new()}", f"a{self.day.new()}"
        for agent in (one, two):
            yield from self.tell("SubagentStart", agent)
        down = [path for path in self.record.mine(self.name) if path in self.own]
        first = self.random.choice(down) if down else self.new_file()
        if self.record.is_free(first, self.name):
            self.record.move([first], self.name, self.who(one))
            yield from self.edit([first], one)
        second = self.new_file()
        yield from self.edit([second], two)
        yield from self.shell("echo sub >> build/sub.log; ls app", agent=two, code=None)
        if self.random.random() < 0.5:
            refused = yield from self.edit([second], one)
            assert refused
            self.day.counts["siblings kept apart"] += 1
        for agent in self.random.sample((one, two), 2):
            yield from self.end_turn(agent)
            self.record.move(self.record.mine(self.who(agent)), self.who(agent), self.name)

    # Collisions

    def reach_for_anothers(self) -> Step:
        """Edit another agent's file: refused, unless the other one finishes while the call is held
        open."""
        taken = [path for path in self.record.taken(self.name) if (self.day.root / path).exists()]
        if taken:
            path = self.random.choice(taken)
            refused = yield from self.edit([path])
            self.day.counts["collision refused" if refused else "collision waited out"] += 1

    def try_again(self) -> Step:
        """Retry a refused file: too early, after it has come free, or for the last time."""
        waits = [path for path in self.waits.get("", ()) if (self.day.root / path).exists()]
        if waits:
            yield from self.edit([self.random.choice(waits)])

    def wait_for_anothers(self) -> Step:
        """Wait for another agent's file without other work, so the stop is held open."""
        yield from self.reach_for_anothers()
        if self.waits.get(""):
            yield from self.end_turn()
            yield from self.prompt()

    def write_over_anothers(self) -> Step:
        taken = [path for path in self.record.taken(self.name) if (self.day.root / path).exists()]
        if taken:
            path = self.random.choice(taken)
            words = (f"sed -i 's/$/ /' {path}", f"echo >> {path}", f"tee -a {path} <<< ' '")
            done = yield from self.shell(self.random.choice(words), [path])
            self.day.counts["write refused" if done is None else "write waited out"] += 1

    def commit_anothers(self) -> Step:
        """Commit another agent's file: git's hook refuses it, whatever the command line looked
        like."""
        taken = set(self.record.taken(self.name)) & self.day.changed()
        taken &= set(self.day.git("ls-files").splitlines())
        if taken:
            path = self.random.choice(sorted(taken))
            before = self.day.git("rev-parse", "HEAD")
            done = self.client.run(f"git commit -q -m theirs -- {path}")
            assert done.code != 0, (self.name, path, done)
            assert path in done.complained, done
            assert self.day.git("rev-parse", "HEAD") == before
            self.day.counts["commit refused"] += 1
        yield

    def throw_away_anothers(self) -> Step:
        changed = self.day.changed() & set(self.day.git("ls-files").splitlines())
        taken = sorted(set(self.record.taken(self.name)) & changed)
        if taken:
            words = ("git stash", "git reset -q --hard", "git checkout -f", "git stash -u")
            done = yield from self.tree(self.random.choice(words), taken)
            assert done is None
            self.day.counts["whole tree refused"] += 1


#: The kinds of work on a day, and how often each comes.
KINDS: dict[Callable[[Agent], Step], int] = {
    Agent.edit_one: 36, Agent.edit_new: 3, Agent.edit_several: 6, Agent.edit_that_fails: 3,
    Agent.run_tests: 8, Agent.run_compiler: 2, Agent.log: 4, Agent.install_packages: 3,
    Agent.look_around: 6, Agent.fail: 2, Agent.format: 5, Agent.stream_edit: 6, Agent.move: 2,
    Agent.commit: 8, Agent.pull: 3, Agent.topic: 5, Agent.stop: 5, Agent.delegate: 4,
    Agent.reach_for_anothers: 4, Agent.try_again: 6, Agent.wait_for_anothers: 5,
    Agent.write_over_anothers: 2, Agent.commit_anothers: 3, Agent.throw_away_anothers: 3,
}  # fmt: skip
