"""The real clients at a stop: how long a hook may keep an agent there, what makes it continue, and
what people see meanwhile and in the end.

The adapters themselves write the answers that make an agent continue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY, until
from holdfast.gate.clients import WAITING, adapter
from holdfast.gate.intent import CONTINUE, HALT, Answer, Intent

from . import drive
from .drive import (
    CLAUDE_EVENTS,
    CODEX_CODE_MODEL,
    CODEX_EVENTS,
    Recorder,
    Running,
    hooks_for,
    start_claude,
    start_codex,
)
from .gated import Gated
from .servers import (
    AnthropicServer,
    ModelServer,
    OpenAIServer,
    Step,
    agent,
    code_patch,
    patch,
    spawn,
    wait_for_agents,
    write,
)
from .windows import ESCAPE, Window, open_claude, open_codex

GO_ON = "a.txt is yours now"
TO_NEW = "*** Update File: a.txt\n@@\n-old\n+new"


def said(client: str, event: str, answer: Answer, **more: Any) -> dict[str, Any]:
    """An adapter's output for an event and an answer."""
    module = adapter(client)
    assert module is not None
    reply = module.say(Intent(client, event, "s", **more), answer)
    return {"stdout": reply.stdout, "stderr": reply.stderr, "code": reply.code}


def says(value: object) -> dict[str, Any]:
    return {"stdout": json.dumps(value)}


class Stopping:
    """A client whose hook is called at each event of its life."""

    client: str
    events: tuple[str, ...]

    def __init__(self, repo: Path, hook: Recorder, server: ModelServer) -> None:
        self.repo, self.hook, self.server = repo, hook, server

    def start(self, *steps: Step, timeout: int = 60, **more: Any) -> Running:
        self.server.scripts["main"] = list(steps)
        return self._start(self._hooks(timeout), **more)

    @contextmanager
    def open(self, *steps: Step, status: str = "") -> Iterator[Window]:
        """The same in a terminal, with the prompt typed."""
        self.server.scripts["main"] = list(steps)
        hooks = self._hooks(60)
        (handler,) = hooks["hooks"]["Stop"][0]["hooks"]
        hooks["hooks"]["Stop"] = [{"hooks": [{**handler, "statusMessage": status}]}]
        with self._open(hooks) as window:
            window.enter("[[main]]")
            yield window

    def _hooks(self, timeout: int) -> dict[str, Any]:
        hooks = hooks_for(self.hook.command, self.events, timeout=timeout)
        for event in ("SessionEnd", "Interrupt") if self.client == "codex" else ():
            hooks["hooks"] |= hooks_for(self.hook.command, [event], timeout=3)["hooks"]
        return hooks

    def asked(self) -> list[int]:
        """The turns that the client requested; its side requests have no tools."""
        return [request.turn for request in self.server.asked("main")]

    def change(self) -> Step:
        raise NotImplementedError

    def _start(self, hooks: dict[str, Any], **more: Any) -> Running:
        raise NotImplementedError

    def _open(self, hooks: dict[str, Any]) -> Window:
        raise NotImplementedError


class StoppingClaude(Stopping):
    client = "claude"
    events = CLAUDE_EVENTS
    server: AnthropicServer

    def change(self) -> Step:
        return write(self.repo / "a.txt", "new\n")

    def _start(self, hooks: dict[str, Any], **more: Any) -> Running:
        return start_claude(self.repo, "[[main]]", self.server, settings=hooks, **more)

    def _open(self, hooks: dict[str, Any]) -> Window:
        return open_claude(self.repo, self.server, self.repo.parent / "home", hooks)


class StoppingCodex(Stopping):
    client = "codex"
    events = CODEX_EVENTS
    server: OpenAIServer

    def change(self) -> Step:
        return patch(TO_NEW)

    def _start(self, hooks: dict[str, Any], **more: Any) -> Running:
        return start_codex(self.repo, "[[main]]", self.server, hooks=hooks, **more)

    def _open(self, hooks: dict[str, Any]) -> Window:
        return open_codex(self.repo, self.server, self.repo.parent / "home", hooks)


@pytest.fixture
def a_claude(repo: Path, hook: Recorder, anthropic: AnthropicServer) -> StoppingClaude:
    return StoppingClaude(repo, hook, anthropic)


@pytest.fixture
def a_codex(repo: Path, hook: Recorder, openai: OpenAIServer) -> StoppingCodex:
    return StoppingCodex(repo, hook, openai)


@pytest.fixture(params=["a_claude", "a_codex"])
def one(request: pytest.FixtureRequest) -> Stopping:
    """Each client in turn."""
    made: Stopping = request.getfixturevalue(request.param)
    return made


# Answers that make an agent continue


def test_a_stop_that_was_held_makes_the_agent_go_on_and_it_reads_why(one: Stopping) -> None:
    go = one.repo.parent / "go"
    words = said(one.client, "stop", Answer(CONTINUE, GO_ON, user="Ann goes on."))
    one.hook.set(Stop={**words, "until": str(go), "once": True})
    running = one.start("I wait.", one.change(), "Done.")
    until(lambda: one.hook.told("Stop"), "it stopped")
    time.sleep(1)
    assert one.asked() == [0]
    go.touch()
    assert running.wait().code == 0
    assert one.asked() == [0, 1, 2]
    assert GO_ON in one.server.asked("main")[1].text()
    assert "Ann goes on." not in one.server.asked("main")[-1].text()
    assert (one.repo / "a.txt").read_text() == "new\n"
    stops = [record["data"]["stop_hook_active"] for record in one.hook.told("Stop")]
    assert stops == [False, True]


def test_a_sub_agent_of_claude_goes_on_likewise(a_claude: StoppingClaude) -> None:
    words = said("claude", "agent_stop", Answer(CONTINUE, GO_ON), agent="a1")
    a_claude.hook.set(SubagentStop={**words, "once": True})
    a_claude.server.scripts["child"] = ["I wait.", a_claude.change(), "Done."]
    a_claude.start(agent("[[child]]"), "Done.").wait()
    check_child(a_claude)


def test_a_sub_agent_of_codex_goes_on_likewise(a_codex: StoppingCodex) -> None:
    words = said("codex", "agent_stop", Answer(CONTINUE, GO_ON), agent="a1")
    a_codex.hook.set(SubagentStop={**words, "once": True})
    a_codex.server.scripts["child"] = ["I wait.", code_patch(TO_NEW), "Done."]
    steps = spawn("[[child]]", "one"), wait_for_agents(), "Done."
    a_codex.start(*steps, model=CODEX_CODE_MODEL).wait()
    check_child(a_codex)


def check_child(one: Stopping) -> None:
    """The child continued, its parent did not stop meanwhile, and was told of one end."""
    assert [request.turn for request in one.server.asked("child")] == [0, 1, 2]
    assert GO_ON in one.server.asked("child")[1].text()
    assert (one.repo / "a.txt").read_text() == "new\n"
    stops = one.hook.told("SubagentStop")
    assert [record["data"]["stop_hook_active"] for record in stops] == [False, True]
    assert len({record["data"]["agent_id"] for record in stops}) == 1
    events = [record["data"]["hook_event_name"] for record in one.hook.told()]
    assert events.count("Stop") == 1
    assert events.index("Stop") > len(events) - 1 - events[::-1].index("SubagentStop")


BLOCK = {"decision": "block", "reason": GO_ON}

#: Answers of a hook at a stop, and whether an agent of each client then continues.
ANSWERS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    # name: (answer, Claude continues, Codex continues)
    "block": (says(BLOCK), True, True),
    "block with a word for the user": (says({**BLOCK, "systemMessage": "hello"}), True, True),
    "block without a reason": (says({**BLOCK, "reason": ""}), True, False),
    "block with an unknown key": (says({**BLOCK, "surprise": 1}), True, False),
    "exit 2 with a reason": ({"stderr": GO_ON, "code": 2}, True, True),
    "a word for the user": (says({"systemMessage": "hello"}), False, False),
    "halt": (says({"continue": False, "stopReason": "no"}), False, False),
    "exit 1": ({"stderr": GO_ON, "code": 1}, False, False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_agent_goes_on_exactly_when_the_answer_says_so(one: Stopping, name: str) -> None:
    answer, *goes_on = ANSWERS[name]
    one.hook.set(Stop={**answer, "once": True})
    one.start("I wait.", "Done.").wait()
    assert one.asked() == ([0, 1] if goes_on[one.client == "codex"] else [0])


def test_a_hook_that_takes_too_long_lets_the_agent_stop(one: Stopping) -> None:
    one.hook.set(Stop={**says(BLOCK), "until": "/nonexistent/go"})
    one.start("I wait.", "Done.", timeout=1).wait()
    assert one.asked() == [0]


# People at a stop that is held


def hold(one: Stopping) -> Path:
    """Keep its agent at its stop until the file exists, and then let it stop."""
    go = one.repo.parent / "go"
    one.hook.set(Stop={"until": str(go)})
    return go


def has_stopped(one: Stopping) -> int:
    """Wait until its agent is at its stop; the hook's process."""
    until(lambda: one.hook.told("Stop"), "it stopped")
    pid: int = one.hook.told("Stop")[0]["pid"]
    return pid


def prompts(one: Stopping) -> list[str]:
    return [record["data"]["prompt"] for record in one.hook.told("UserPromptSubmit")]


def test_both_show_the_text_of_a_hook_while_it_holds_a_stop(one: Stopping) -> None:
    hold(one)
    with one.open("I wait.", status=WAITING) as window:
        has_stopped(one)
        window.shows(WAITING)


def test_a_prompt_typed_while_claude_is_held_is_told_at_once_and_served_after_the_hook(
    a_claude: StoppingClaude,
) -> None:
    go = hold(a_claude)
    a_claude.server.scripts["more"] = ["Done."]
    with a_claude.open("I wait.") as window:
        has_stopped(a_claude)
        window.enter("[[more]]")
        until(lambda: prompts(a_claude) == ["[[main]]", "[[more]]"], "the prompt was told")
        time.sleep(0.5)
        assert a_claude.server.asked("more") == []
        go.touch()
        a_claude.server.wait_for("more")


def test_a_prompt_typed_while_codex_is_held_is_told_after_the_hook_only(
    a_codex: StoppingCodex,
) -> None:
    go = hold(a_codex)
    a_codex.server.scripts["more"] = ["Done."]
    with a_codex.open("I wait.") as window:
        has_stopped(a_codex)
        window.enter("[[more]]")
        time.sleep(1)
        assert prompts(a_codex) == ["[[main]]"]
        go.touch()
        until(lambda: prompts(a_codex) == ["[[main]]", "[[more]]"], "the prompt was told")


def test_a_prompt_sent_to_a_held_claude_without_a_terminal_is_told_after_the_hook_only(
    a_claude: StoppingClaude,
) -> None:
    go = hold(a_claude)
    a_claude.server.scripts["more"] = ["Done."]
    running = a_claude.start("I wait.", stays=True)
    has_stopped(a_claude)
    running.say("[[more]]")
    time.sleep(1)
    assert prompts(a_claude) == ["[[main]]"]
    go.touch()
    a_claude.server.wait_for("more")
    assert prompts(a_claude) == ["[[main]]", "[[more]]"]
    running.hang_up()
    running.wait()


@LINUX_ONLY
def test_escape_ends_the_hook_of_a_held_claude_with_a_signal_and_tells_nobody(
    a_claude: StoppingClaude,
) -> None:
    hold(a_claude)
    with a_claude.open("I wait.") as window:
        pid = has_stopped(a_claude)
        before = len(a_claude.hook.told())
        window.press(ESCAPE)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the hook ended")
        until(lambda: a_claude.hook.told("SIGTERM"), "it had a signal")
        time.sleep(0.5)
        assert len(a_claude.hook.told()) == before + 1


@LINUX_ONLY
def test_escape_kills_the_hook_of_a_held_codex_and_is_told_as_an_interruption(
    a_codex: StoppingCodex,
) -> None:
    hold(a_codex)
    with a_codex.open("I wait.") as window:
        pid = has_stopped(a_codex)
        window.press(ESCAPE)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the hook ended")
        until(lambda: a_codex.hook.told("Interrupt"), "the interruption was told")
        assert a_codex.hook.told("SIGTERM") == []


# Reports on a stopped agent that has no terminal

REPORT = "Blocked, waiting for instruction.\n  blocked file    a.txt\n  owner           Ben"
HALTED = Answer(HALT, "Stop here.", user=REPORT)


def ends_halted(one: Stopping, **more: Any) -> drive.Result:
    """The agent tries to edit a file, is halted, and is reported again at its end."""
    end = said(one.client, "session_end", HALTED, is_attended=False)
    one.hook.set(PreToolUse=said(one.client, "edit", HALTED), SessionEnd=end)
    result = one.start(one.change(), "Model's last words.", **more).wait()
    assert (one.repo / "a.txt").read_text() == "old\n"
    return result


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_claude_without_a_terminal_says_in_the_end_that_it_is_blocked(
    a_claude: StoppingClaude, format: str
) -> None:
    result = ends_halted(a_claude, options=["--output-format", format])
    assert f"\n{REPORT}\n" in result.stderr
    assert a_claude.asked() == [0]  # its model got no further request
    # without the report on stderr, the output would be empty
    assert result.code == 0
    if format == "text":
        assert result.stdout.strip() == ""
    else:
        last = json.loads(result.stdout.splitlines()[-1])
        last = last[-1] if isinstance(last, list) else last
        assert (last["result"], last["terminal_reason"]) == ("", "hook_stopped")


def test_a_claude_that_was_not_blocked_says_nothing_more(a_claude: StoppingClaude) -> None:
    end = said("claude", "session_end", Answer("quiet", user="Bye."), is_attended=False)
    a_claude.hook.set(SessionEnd=end)
    result = a_claude.start("Done.", options=["--output-format", "text"]).wait()
    assert (result.stdout.strip(), result.stderr) == ("Done.", "")


def test_codex_without_a_terminal_says_why_an_edit_was_refused_and_shows_no_word_to_the_user(
    a_codex: StoppingCodex,
) -> None:
    a_codex.hook.set(Stop=says({"systemMessage": "at the stop"}))
    result = ends_halted(a_codex, as_json=False)
    assert "Stop here." in result.stderr
    assert result.stdout == "Model's last words.\n"
    for word in ("at the stop", "owner           Ben"):
        assert word not in result.stdout + result.stderr


def test_claude_tells_its_hooks_whether_a_person_sits_before_it(a_claude: StoppingClaude) -> None:
    module = adapter("claude")
    assert module is not None
    with a_claude.open("Done."):
        has_stopped(a_claude)
    seen = len(a_claude.hook.told())
    for record in a_claude.hook.told():
        assert module.read(record["data"], record["env"]).is_attended
    a_claude.start("Done.").wait()
    for record in a_claude.hook.told()[seen:]:
        assert not module.read(record["data"], record["env"]).is_attended


def test_codex_takes_the_hooks_of_init_without_a_warning(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init()
    home = gated.home()
    hooks = drive.codex_hooks(gated.root, home)
    assert drive.codex_warnings(gated.root, home) == []
    shown = {hook["eventName"]: hook["statusMessage"] for hook in hooks}
    assert [event for event, text in shown.items() if text == WAITING] == [
        "preToolUse", "subagentStop", "stop",
    ]  # fmt: skip
    limits = {hook["eventName"]: hook["timeoutSec"] for hook in hooks}
    assert limits == {event: 3 if event in ("sessionEnd", "interrupt") else 240 for event in limits}
    # Codex's warning about a longer timeout
    settings = json.loads((gated.root / ".codex" / "hooks.json").read_text())
    for event in ("Interrupt", "SessionEnd"):
        settings["hooks"][event][0]["hooks"][0]["timeout"] = 4
    drive.write_json(gated.root / ".codex" / "hooks.json", settings)
    assert len(drive.codex_warnings(gated.root, home)) == 2
