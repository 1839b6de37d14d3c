"""The input of the real clients' hooks: which agent works, where, and with what result."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY, until

from .drive import (
    CLAUDE_EVENTS,
    CODEX_CODE_MODEL,
    CODEX_EVENTS,
    Recorder,
    hooks_for,
    run_claude,
    run_codex,
    start_claude,
    start_codex,
)
from .servers import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Turn,
    agent,
    bash,
    code_patch,
    code_shell,
    patch,
    shell,
    spawn,
    wait_for_agents,
    write,
)

ADD = "*** Add File: new.txt\n+new"


def test_claude_names_itself_to_hooks_and_to_commands(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    names = "$CLAUDE_PID $CLAUDE_CODE_SESSION_ID"
    anthropic.scripts["main"] = [bash(f"echo {names}"), agent("[[child]]"), "Done."]
    anthropic.scripts["child"] = [bash(f"echo {names}"), "Done."]
    running = start_claude(
        repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS)
    )
    session = running.wait().session
    for script in ("main", "child"):
        assert anthropic.results(script)[0].split() == [str(running.pid), session]
    assert {record["data"]["hook_event_name"] for record in hook.told()} == {*CODEX_EVENTS}
    for record in hook.told():
        assert record["data"]["session_id"] == session
        assert record["env"]["CLAUDE_PID"] == str(running.pid)
        assert record["env"]["CLAUDE_CODE_SESSION_ID"] == session


@LINUX_ONLY
def test_codex_is_found_above_its_hook_and_names_itself_to_commands(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [shell("echo $CODEX_SESSION_ID $CODEX_THREAD_ID"), "Done."]
    running = start_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    session = running.wait().session
    assert openai.results("main")[0].split()[-2:] == [session, session]
    for record in hook.told():
        assert record["data"]["session_id"] == session
        assert "CODEX_SESSION_ID" not in record["env"]
        assert running.pid in [process["pid"] for process in record["ancestors"][:2]]


def test_claudes_sub_agents_have_an_id_of_their_own_in_one_session(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [Turn(calls=(agent("[[one]]"), agent("[[two]]"))), "Done."]
    anthropic.scripts["one"] = [write(repo / "one.txt", "1\n"), agent("[[deep]]"), "Done."]
    anthropic.scripts["two"] = [write(repo / "two.txt", "2\n"), "Done."]
    anthropic.scripts["deep"] = [write(repo / "deep.txt", "3\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS))
    writers = {
        Path(record["data"]["tool_input"]["file_path"]).stem: record["data"]["agent_id"]
        for record in hook.told("PreToolUse", "Write")
    }
    assert sorted(writers) == ["deep", "one", "two"]
    for event in ("SubagentStart", "SubagentStop"):
        ids = [record["data"]["agent_id"] for record in hook.told(event)]
        assert sorted(ids) == sorted(writers.values())
    assert len({record["data"]["session_id"] for record in hook.told()}) == 1
    # Only the parent's own call shows whose child a sub-agent is.
    parents = {
        record["data"]["tool_response"]["agentId"]: record["data"].get("agent_id", "")
        for record in hook.told("PostToolUse", "Agent")
    }
    assert parents == {writers["one"]: "", writers["two"]: "", writers["deep"]: writers["one"]}


def test_codexs_sub_agents_have_an_id_of_their_own_in_one_session(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [spawn("[[child]]", "one"), wait_for_agents(), "Done."]
    openai.scripts["child"] = [
        code_patch(ADD),
        code_shell("echo $CODEX_SESSION_ID/$CODEX_THREAD_ID"),
        "Done.",
    ]
    hooks = hooks_for(hook.command, CODEX_EVENTS)
    result = run_codex(repo, "[[main]]", openai, hooks=hooks, model=CODEX_CODE_MODEL)
    (edit,) = hook.told("PreToolUse", "apply_patch")
    id = edit["data"]["agent_id"]
    assert edit["data"]["session_id"] == result.session != id
    for event in ("SubagentStart", "SubagentStop"):
        assert [record["data"]["agent_id"] for record in hook.told(event)] == [id]
    assert f"{result.session}/{id}" in openai.results("child")[1]
    (stop,) = hook.told("Stop")
    assert "agent_id" not in stop["data"]
    assert (repo / "new.txt").exists()


def test_a_prompt_that_no_user_typed_can_be_told_from_one_in_claude(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [bash("true", background=True), "Done.", "Noted.", "Noted."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS))
    prompts = [record["data"]["prompt"] for record in hook.told("UserPromptSubmit")]
    assert prompts[0] == "[[main]]"
    assert len(prompts) > 1
    for prompt in prompts[1:]:
        assert prompt.startswith("<task-notification>")


def test_claude_says_at_a_stop_what_still_runs(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    command = "until [ -e go ]; do sleep 0.05; done"
    anthropic.scripts["main"] = [
        Turn(calls=(bash(command, background=True), agent("[[child]]", background=True))),
        "Done.",
        "Noted.",
        "Noted.",
    ]
    anthropic.scripts["child"] = ["Done."]
    running = start_claude(
        repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS)
    )
    until(lambda: hook.told("Stop"), "Claude stopped while the command still ran")
    (repo / "go").touch()
    running.wait()
    tasks = [record["data"]["background_tasks"] for record in hook.told("Stop")]
    assert ("shell", "running", command) in [
        (task["type"], task["status"], task.get("command")) for task in tasks[0]
    ]
    assert tasks[-1] == []
    # A sub-agent in the background is listed among the tasks that still run.
    (stop,) = hook.told("SubagentStop")
    listed = {task["id"]: task["type"] for task in stop["data"]["background_tasks"]}
    assert listed[stop["data"]["agent_id"]] == "subagent"


def test_a_command_that_fails_is_told_as_a_failure_by_claude_only(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, openai: OpenAIServer
) -> None:
    anthropic.scripts["main"] = [bash("exit 3"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS))
    assert hook.told("PostToolUse") == []
    assert [record["data"]["error"] for record in hook.told("PostToolUseFailure")] == [
        "Exit code 3"
    ]
    openai.scripts["main"] = [shell("exit 3"), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    assert [record["data"]["tool_response"] for record in hook.told("PostToolUse")] == [""]


def test_codex_says_nothing_after_a_patch_that_did_not_fit(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    misfit = "*** Update File: a.txt\n@@\n-nothing like it\n+new"
    openai.scripts["main"] = [patch(misfit), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    assert len(hook.told("PreToolUse", "apply_patch")) == 1
    assert hook.told("PostToolUse") == []


def test_codex_reads_a_patch_in_a_command_itself(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    text = str(patch(ADD).input)
    openai.scripts["main"] = [shell(f"apply_patch <<'EOF'\n{text}EOF\n"), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    assert (repo / "new.txt").read_text() == "new\n"
    (told,) = hook.told("PreToolUse")
    assert told["data"]["tool_name"] == "Bash"
    assert hook.told("PostToolUse") == []


def test_codex_gives_the_folder_of_the_command_as_cwd(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    (repo / "sub").mkdir()
    call = Call("exec_command", {"cmd": "echo new > c.txt", "workdir": str(repo / "sub")})
    openai.scripts["main"] = [call, "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, ["PreToolUse"]))
    assert [record["data"]["cwd"] for record in hook.told()] == [str(repo / "sub")]
    assert (repo / "sub" / "c.txt").exists()


def test_claude_gives_the_folder_it_went_to_as_cwd_and_paths_in_full(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    (repo / "sub").mkdir()
    anthropic.scripts["main"] = [bash("cd sub"), write("c.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, ["PreToolUse"]))
    told = [record["data"] for record in hook.told()]
    assert [data["cwd"] for data in told] == [str(repo), str(repo / "sub")]
    assert told[1]["tool_input"]["file_path"] == str(repo / "sub" / "c.txt")
