"""The demo of screens: two dozen of them, six agents at once, and everything that can go wrong.

The agents are scripts that pause instead of thinking. Everything else is real: the dispatcher is
the ordinary command, in a repository of its own, and it is killed half-way with `kill -9`. One
agent crashes in the middle of an edit, one hangs, and one writes a file that it never named.
Everything that is printed was read from the ledger, recorded by an agent, or measured; and at the
end it is checked by code that shares nothing with the code that decided.

It needs no network and no account, and leaves nothing behind unless asked to.
"""

from __future__ import annotations

import glob
import os
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from holdfast.cli import DONE, FAILED
from holdfast.cli.demo import demo_screens_stage
from holdfast.cli.demo.demo_checks import Finding
from holdfast.cli.demo.demo_process import (
    DemoError,
    about_ledger,
    dispatch,
    end,
    last_words,
    temporary_folder,
)
from holdfast.cli.demo.demo_screens_audit import Evidence, audit
from holdfast.cli.demo.demo_screens_story import News, Story
from holdfast.cli.demo.demo_show import Show
from holdfast.cli.printing import document, quoted
from holdfast.cli.terminal.tables import RED
from holdfast.core.model import SECOND
from holdfast.gate.sandbox.kernel import seccomp
from holdfast.gate.sandbox.kernel.landlock import support
from holdfast.manager.manager import LockManager

if TYPE_CHECKING:
    from holdfast.cli.parser import Call

#: How long the agents think, relative to their script. Tests use less.
PACE = 1.0
#: How long nothing may happen at most, on a busy machine.
SILENCE_SECONDS = 60.0
DRAW_SECONDS = 0.2
#: The output of the dispatcher, in the folder of the repository.
DISPATCH_LOG = "dispatch.log"
_HINT = "try again with --keep, and look at the files that it leaves"


def play(call: Call) -> int:
    """Play it. The exit code is 1 if a check failed."""
    groups = {group: len(names) for group, names in demo_screens_stage.SCREENS.items()}
    show = Show(groups, quiet=call.flag("json"))
    with (
        temporary_folder(keep=call.flag("keep")) as folder,
        Director(folder, show, PACE) as director,
    ):
        result = director.play()
    if call.flag("json"):
        document({**result, "folder": folder if call.flag("keep") else None})
    elif call.flag("keep"):
        show.say("Kept. Look at it with:")
        for words in ("serve", "gaps", "log", "dispatch --amend"):
            show.paste(f"holdfast -C {quoted([folder])} {words}")
    return DONE if result["passed"] else FAILED


class Director:
    """Sets the stage, lets the dispatcher work, kills it once, and examines the result."""

    def __init__(self, root: str, show: Show, pace: float) -> None:
        self._show = show
        self._root = root
        self._log = f"{root}/{DISPATCH_LOG}"
        self._pace = pace
        self._has_git = demo_screens_stage.build(root, pace)
        self._opened = ExitStack()
        self._manager = self._opened.enter_context(LockManager.open(root))
        self._story = Story(root, demo_screens_stage.SLOTS)
        self._dispatcher: subprocess.Popen[bytes] | None = None
        self._killed: dict[str, Any] = {}

    def __enter__(self) -> Director:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        self._show.end()
        if self._dispatcher is not None:
            end(self._dispatcher)
        self._opened.close()

    def play(self) -> dict[str, Any]:
        """All of it, then the report."""
        self._introduce()
        self._work()
        self._show.end()
        return self._report()

    def _introduce(self) -> None:
        show = self._show
        kind = "git repository" if self._has_git else "folder (there is no git here)"
        show.title("One repository, many agents")
        show.say(
            f"A made-up {kind} with {len(demo_screens_stage.application())} files: "
            f"{len(demo_screens_stage.screen_names())} screens of "
            f"{len(demo_screens_stage.SCREENS)} controllers. Agents analyse each screen, then "
            f"merge each controller, {demo_screens_stage.SLOTS} of them at once. The agents "
            "are scripts that pause instead of thinking; everything else is real."
        )
        if told := about_ledger(self._manager.store.url):
            show.say(told)
        if not support().is_enough:
            show.say(
                f"There is no sandbox on this machine: {support().lacks}. Nothing stops an agent "
                "from writing files that it did not name."
            )
        elif seccomp.lacks():
            show.say(
                "On this machine refused writes go unnoticed, and no gap is recorded: "
                f"{seccomp.lacks()}."
            )
        self._open_page()
        show.pause()

    def _open_page(self) -> None:
        from holdfast.server.server import ListenError, Server

        # on a ledger of its own, so that the work does not wait for viewers
        manager = self._opened.enter_context(LockManager.open(self._root))
        try:
            server = Server(manager, port=0, changes=False)  # there is nothing to decide
        except ListenError as error:
            self._show.say(f"It cannot be watched in a browser: {error.message}")
            return
        self._opened.enter_context(server)
        self._show.paste(f"Watch it in a browser: {server.url}")

    # While it runs

    def _work(self) -> None:
        """Until the dispatcher has nothing left to do; it is killed once in the middle."""
        self._dispatcher = self._dispatch("screens.json")
        began = heard = time.monotonic()
        while self._dispatcher.poll() is None:
            before = self._story.seen
            self._manager.store.wait(before, DRAW_SECONDS)
            self._catch_up()
            if self._story.seen > before:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS:
                raise DemoError(f"no progress any more: {last_words(self._log)}", hint=_HINT)
            if not self._killed and self._is_in_the_middle():
                self._kill()
            self._show.draw(self._story, time.monotonic() - began)
        self._catch_up()
        self._show.draw(self._story, time.monotonic() - began)
        if self._dispatcher.returncode and not self._story.states:
            raise DemoError(f"the dispatcher did not start: {last_words(self._log)}", hint=_HINT)

    def _catch_up(self) -> None:
        self._show.tell(self._story, self._story.read(list(self._manager.events(self._story.seen))))

    def _dispatch(self, word: str) -> subprocess.Popen[bytes]:
        # Where there is no sandbox, the demo reports that itself.
        return dispatch(self._root, self._log, word, "--sandbox=best-effort")

    def _is_in_the_middle(self) -> bool:
        """Whether a merge has started to write, and is not done."""
        long = round(0.5 * self._pace * SECOND)
        now = self._manager.now()
        return any(
            self._story.items[id]["phase"] == "apply" and now - since > long
            for id, since in self._story.out.items()
        )

    def _kill(self) -> None:
        """The worst that can happen to a dispatcher; and what a person does then."""
        assert self._dispatcher is not None
        self._dispatcher.kill()
        self._dispatcher.wait()
        self._catch_up()
        self._killed = {"agents_out": self._story.cut_off(), "events": self._story.seen}
        told = f"is killed (kill -9) with {self._killed['agents_out']} agents running"
        news = [News(self._manager.now(), "the dispatcher", told, RED)]
        self._dispatcher = self._dispatch("--resume")
        news.append(News(self._manager.now(), "another one", "continues: dispatch --resume"))
        self._show.tell(self._story, news)

    # The result

    def _report(self) -> dict[str, Any]:
        events = list(self._manager.events())
        diaries = [_diary(file) for file in glob.glob(f"{self._root}/.holdfast/runs/*/*.log")]
        files = {
            path: _lines(f"{self._root}/{path}")[1:] for path in demo_screens_stage.application()
        }
        evidence = Evidence(events, files, diaries, support().lacks)
        crash, hang = self._crash(), self._hang(diaries)
        findings = [*self._troubles(evidence, crash, hang), *audit(evidence)]
        story = self._story
        result = {
            "passed": all(finding.passed is not False for finding in findings),
            "screens": len(demo_screens_stage.screen_names()),
            "controllers": len(demo_screens_stage.SCREENS),
            "seconds": round((story.ended - story.began) / SECOND, 2),
            "work_seconds": round(story.work_seconds, 2),
            "agents_at_once": story.most_at_once,
            "conflicts_avoided": len(story.waits),
            "waits": [wait.to_data() for wait in story.waits],
            "contended": _contended(story),
            "gaps": [{"workflow": who, "path": path} for who, path in story.gaps],
            "unguarded": evidence.unguarded,
            "crash": crash,
            "hang": hang,
            "killed": self._killed,
            "events": len(events),
            "files": len(files),
            "diaries": len(diaries),
            "store": self._manager.store.url,
            "checks": [finding._asdict() for finding in findings],
        }
        self._show.report(result, findings)
        return result

    def _crash(self) -> dict[str, Any]:
        """The agent that was killed by a signal, as the dispatcher noticed."""
        phase, group = demo_screens_stage.CRASHES
        for who, when, why in self._story.retried:
            if (when, who) == (phase, group) and "signal" in why:
                return {"workflow": who, "why": why}
        return {}

    def _hang(self, diaries: list[list[str]]) -> dict[str, Any]:
        """The agent that hung, by the end of its diary, and when it was ended, by the ledger."""
        phase, group = demo_screens_stage.HANGS
        took = [seconds for *who, seconds in self._story.failed if who == [group, phase]]
        for diary in diaries:
            words = [line.split() for line in diary]
            if took and words and words[0][3:] == [group, phase] and words[-1][1] == "hangs":
                child = int(words[-1][2])
                return {"workflow": group, "seconds": round(took[0], 1), "child": child}
        return {}

    def _troubles(
        self, evidence: Evidence, crash: dict[str, Any], hang: dict[str, Any]
    ) -> list[Finding]:
        """Whether each of the troubles was handled."""
        states = self._story.states
        verbs = {" ".join(line.split()[1:]) for diary in evidence.diaries for line in diary}
        is_done = [states.get(one) == "completed" for one in demo_screens_stage.SCREENS]
        return [
            Finding("all controllers were merged", all(is_done), f"{sum(is_done)} of them"),
            self._stray(f"refused {demo_screens_stage.STRAYS[2]}" in verbs, evidence.unguarded),
            Finding(
                "the merge that crashed was undone and done again",
                bool(crash) and states.get(crash["workflow"]) == "completed",
                crash.get("why", "it did not happen"),
            ),
            Finding(
                "the hung tests were ended, with every process that they had started",
                bool(hang) and not os.path.exists(f"/proc/{hang['child']}"),
                "none of them is left" if hang else "it did not happen",
            ),
            Finding(
                "the killed dispatcher lost nothing",
                bool(self._killed) and all(is_done),
                f"at event {self._killed.get('events', 0)}",
            ),
        ]

    def _stray(self, is_refused: bool, unguarded: str) -> Finding:
        """The write to a file that no analysis had named: the agent was refused, and the operator
        can see it."""
        question = "the write to a file that no analysis had named was refused"
        if unguarded:
            return Finding(question, None, unguarded)
        if demo_screens_stage.STRAYS[1:] in self._story.gaps:
            return Finding(question, is_refused, "by the kernel, and recorded")
        unnoticed = seccomp.lacks()
        return Finding(
            question, is_refused and bool(unnoticed), unnoticed or "no refusal is recorded"
        )


def _contended(story: Story) -> list[tuple[str, int, float]]:
    """The files that agents waited for: how often, and for how long in all."""
    found: dict[str, list[float]] = {}
    for wait in story.waits:
        found.setdefault(wait.path, []).append(wait.seconds)
    told = [(path, len(each), round(sum(each), 1)) for path, each in found.items()]
    return sorted(told, key=lambda one: (-one[1], -one[2]))


def _lines(file: str) -> list[str]:
    with open(file, encoding="utf-8", errors="replace") as text:
        return text.read().splitlines()


def _diary(file: str) -> list[str]:
    """The diary of an agent, without the output of the programs that it used."""
    return [line for line in _lines(file) if line[:1].isdigit() and line.count(" ")]
