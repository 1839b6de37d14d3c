"""The samples are the real clients' input: recorded from them, and compared with them here.

    HOLDFAST_SAMPLES=write pytest tests/clients/test_samples.py      records them anew

Each file in `samples/` is a hook's standard input at one event. Ids, paths, times and numbers that
differ from run to run are replaced by fixed ones; all else is as it was sent. The tests of the
adapters read the samples, and need no client for that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .drive import (
    CLAUDE_EVENTS,
    CODEX_CODE_MODEL,
    CODEX_EARLY_MODEL,
    CODEX_EVENTS,
    Recorder,
    hooks_for,
    run_claude,
    run_codex,
)
from .servers import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Turn,
    agent,
    bash,
    code_patch,
    edit,
    patch,
    read,
    shell,
    spawn,
    spawn_early,
    wait_for_agents,
    write,
)

SAMPLES = Path(__file__).with_name("samples")
WRITING = os.environ.get("HOLDFAST_SAMPLES") == "write"

SESSION = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
AGENT = "00000000-0000-4000-8000-000000000003"

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

#: In texts: the parts that differ from run to run, and their replacements. The order matters.
TEXTS = (
    (r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", "rollout-2026-01-01T00-00-00"),
    (r"/\d{4}/\d\d/\d\d/", "/2026/01/01/"),
    (r"exec-" + UUID, "exec-1"),
    (r"toolu_call_\d+_t\d+_0", "toolu_1"),
    (r"\bcall_\d+_t\d+_0", "call_1"),
    (r"Wall time: [\d.]+ seconds", "Wall time: 0 seconds"),
    (r"<duration_ms>\d+<", "<duration_ms>1<"),
    (r"<subagent_tokens>\d+<", "<subagent_tokens>1<"),
    (r'"nickname":"[^"]*"', '"nickname":"Ada"'),
    (r"/claude-\d+/", "/claude-0/"),
)

#: Keys whose value is a duration or an amount, and says nothing about the contract.
NUMBERS = re.compile(r"(?:_ms|Ms|[tT]okens|_tokens|_usd|seconds_since_last_response)$")


class Scrubber:
    """Replaces values that differ from run to run by fixed ones."""

    def __init__(self, repo: Path, home: Path, session: str, ids: dict[str, str]) -> None:
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(repo))
        known = {str(home): "/home/user", str(repo): "/repo", slug: "-repo", session: SESSION}
        self._known = {**known, **ids}

    def text(self, value: str) -> str:
        for real, fixed in self._known.items():
            value = value.replace(real, fixed)
        for pattern, fixed in TEXTS:
            value = re.sub(pattern, fixed, value)
        fixed_ids = (SESSION, AGENT)
        return re.sub(UUID, lambda m: m[0] if m[0] in fixed_ids else OTHER, value)

    def all(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.all(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.all(inner) for inner in value]
        if isinstance(value, str):
            # A digest of the client's own instructions.
            return "0" * 16 if key == "harnessSectionHash" else self.text(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return 1 if number and NUMBERS.search(key) else value


def samples_of(
    client: str, records: list[dict[str, Any]], scrub: Callable[[Any], Any]
) -> dict[str, Any]:
    """A sample of every kind of event: the first of its kind in each run."""
    found: dict[str, Any] = {}
    for record in records:
        data = record["data"]
        parts = [client, data["hook_event_name"], data.get("tool_name", "")]
        if data["hook_event_name"] == "SessionStart" and data["source"] != "startup":
            parts.append(data["source"])
        if data.get("prompt", "").startswith("<task-notification>"):
            parts.append("notification")
        if data.get("tool_input", {}).get("run_in_background"):
            parts.append("background")
        if data.get("background_tasks"):
            parts.append("background")
        if "agent_id" in data and not data["hook_event_name"].startswith("Subagent"):
            parts.append("subagent")
        found.setdefault("-".join(part for part in parts if part), scrub(data))
    return found


def compare(client: str, found: dict[str, Any]) -> None:
    """Compare with the stored samples, or store them."""
    if WRITING:
        for old in SAMPLES.glob(f"{client}-*.json"):
            old.unlink()
        SAMPLES.mkdir(exist_ok=True)
        for name, sample in found.items():
            text = json.dumps(sample, indent=2, ensure_ascii=False)
            (SAMPLES / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    stored = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in SAMPLES.glob(f"{client}-*.json")
    }
    assert found == stored


def notebook(path: Path) -> None:
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": ["1"], "outputs": []}
    cells = [{**cell, "execution_count": None}]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book))


def test_claude_sends_what_the_samples_say(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    notebook(repo / "n.ipynb")
    change = {"notebook_path": str(repo / "n.ipynb"), "cell_id": "c1", "new_source": "2"}
    anthropic.scripts["main"] = [
        read(repo / "a.txt"),
        edit(repo / "a.txt", "old", "new"),
        write(repo / "new.txt", "new\n"),
        read(repo / "n.ipynb"),
        Call("NotebookEdit", change),
        bash("echo new > b.txt"),
        bash("exit 3"),
        agent("[[child]]"),
        "Done.",
    ]
    anthropic.scripts["child"] = [
        write(repo / "child.txt", "new\n"),
        bash("cat b.txt"),
        bash("exit 3"),
        "Done.",
    ]
    wait = bash("until [ -e go ]; do sleep 0.05; done", background=True)
    anthropic.scripts["later"] = [wait, "Done.", "Noted.", "Noted."]
    anthropic.scripts["behind"] = [agent("[[quick]]", background=True), "Done.", "Noted."]
    anthropic.scripts["quick"] = ["Done."]
    # Not the main agent itself: Claude does not wait for the hook that reports its failure.
    anthropic.scripts["trouble"] = [agent("[[failing]]"), bash("sleep 0.5"), "Done."]
    anthropic.scripts["failing"] = [Turn(status=400)]
    settings = hooks_for(hook.command, CLAUDE_EVENTS)
    first = run_claude(repo, "[[main]]", anthropic, home=home, settings=settings)
    # The command in the background ends only after Claude has stopped.
    settings["hooks"] |= hooks_for(f"{hook.command}; touch go", ["Stop"])["hooks"]
    for script in ("later", "behind", "trouble"):
        prompt = f"[[{script}]]"
        run_claude(repo, prompt, anthropic, home=home, settings=settings, resume=first.session)
    ids = {}
    for record in hook.told():
        data = record["data"]
        if "agent_id" in data:
            ids[data["agent_id"]] = "a0000000000000001"
        response = data.get("tool_response")
        if isinstance(response, dict) and "backgroundTaskId" in response:
            ids[response["backgroundTaskId"]] = "b00000001"
    scrub = Scrubber(repo, home, first.session, ids)
    compare("claude", samples_of("claude", hook.told(), scrub.all))


def test_codex_sends_what_the_samples_say(
    repo: Path, hook: Recorder, openai: OpenAIServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    openai.scripts["main"] = [
        patch(
            "*** Add File: new.txt\n+new",
            "*** Update File: a.txt\n*** Move to: moved.txt\n@@\n-old\n+new",
            "*** Delete File: b.txt",
        ),
        shell("echo new > c.txt"),
        "Done.",
    ]
    openai.scripts["again"] = ["Done."]
    openai.scripts["parent"] = [spawn("[[child]]", "one"), wait_for_agents(), "Done."]
    openai.scripts["child"] = [code_patch("*** Add File: child.txt\n+new"), "Done."]
    openai.scripts["early"] = [spawn_early("[[child]]"), lambda _: wait_for_the_early(), "Done."]

    def wait_for_the_early() -> Call:
        id = json.loads(openai.results("early")[0])["agent_id"]
        return Call("wait_agent", {"targets": [id], "timeout_ms": 30000}, "multi_agent_v1")

    hooks = hooks_for(hook.command, CODEX_EVENTS)
    first = run_codex(repo, "[[main]]", openai, home=home, hooks=hooks)
    run_codex(repo, "[[again]]", openai, home=home, resume=first.session)
    other = run_codex(repo, "[[parent]]", openai, home=home, model=CODEX_CODE_MODEL)
    (repo / "child.txt").unlink()
    early = run_codex(repo, "[[early]]", openai, home=home, model=CODEX_EARLY_MODEL)
    agents = {record["data"]["agent_id"] for record in hook.told("SubagentStart")}
    ids = {**dict.fromkeys(agents, AGENT), other.session: SESSION, early.session: SESSION}
    scrub = Scrubber(repo, home, first.session, ids)
    compare("codex", samples_of("codex", hook.told(), scrub.all))
