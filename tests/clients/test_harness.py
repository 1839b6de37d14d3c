"""The harness itself: the assumptions of the other tests here."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from helpers_processes import LINUX_ONLY, until

from . import install
from .drive import Recorder, hooks_for, start_claude, start_codex, sweep
from .servers import AnthropicServer, OpenAIServer, bash, patch, write

TOOLS = [{"name": "Bash"}]


def post(server: AnthropicServer, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    body = json.dumps({"messages": messages, "tools": TOOLS}).encode()
    request = urllib.request.Request(f"{server.url}/v1/messages", data=body)
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: list[dict[str, Any]] = json.load(answer)["content"]
        return content


def test_a_script_is_followed_by_what_the_conversation_says_not_by_counting() -> None:
    begin = [{"role": "user", "content": "please [[main]]"}]
    with AnthropicServer({"main": [bash("true"), "first end"], "more": ["second end"]}) as server:
        (call,) = post(server, begin)
        (again,) = post(server, begin)
        assert call["input"] == again["input"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "[[more]] said it"}
        so_far: list[dict[str, Any]] = [
            *begin,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
        assert post(server, so_far) == [{"type": "text", "text": "first end"}]
        assert server.results("main") == ("[[more]] said it",)
        so_far += [
            {"role": "assistant", "content": [{"type": "text", "text": "first end"}]},
            {"role": "user", "content": "and now [[more]]"},
        ]
        assert post(server, so_far) == [{"type": "text", "text": "second end"}]
        assert [request.turn for request in server.asked("main")] == [0, 0, 1]


def test_both_clients_work_at_once_each_by_its_own_script(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, openai: OpenAIServer
) -> None:
    def after_the_other(body: dict[str, Any]) -> str:
        # Both must be in the middle of their scripts here, or this would never end.
        openai.wait_for("two", 1)
        return "Done."

    def after_the_first(body: dict[str, Any]) -> str:
        anthropic.wait_for("one", 1)
        return "Done."

    anthropic.scripts["one"] = [write(repo / "one.txt", "1\n"), after_the_other]
    openai.scripts["two"] = [patch("*** Add File: two.txt\n+2"), after_the_first]
    events = ["PreToolUse"]
    first = start_claude(repo, "[[one]]", anthropic, settings=hooks_for(hook.command, events))
    second = start_codex(repo, "[[two]]", openai, hooks=hooks_for(hook.command, events))
    assert [first.wait().code, second.wait().code] == [0, 0]
    assert [(repo / name).read_text() for name in ("one.txt", "two.txt")] == ["1\n", "2\n"]
    assert len({record["data"]["session_id"] for record in hook.told("PreToolUse")}) == 2


@LINUX_ONLY
def test_nothing_of_a_client_is_left_after_a_sweep(
    repo: Path, anthropic: AnthropicServer, tmp_path: Path
) -> None:
    anthropic.scripts["main"] = [bash("touch begun; sleep 600"), "Done."]
    running = start_claude(repo, "[[main]]", anthropic)
    until(lambda: (repo / "begun").exists(), "the command began")
    running.kill()
    assert sweep(tmp_path) != []
    assert sweep(tmp_path) == []


def test_a_client_that_is_there_is_not_fetched_again(anthropic: AnthropicServer) -> None:
    program = install.program("claude")
    before = program.stat().st_ctime_ns
    assert install.main(["claude"]) == 0
    assert install.program("claude").stat().st_ctime_ns == before
