"""Commands, hooks and runs of a repository whose ledger is on a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers_broker import NEEDS_BROKER, until
from helpers_cli import environment
from helpers_hook import HOOK, sample
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_server_ledger import Clones
from holdfast.manager.owners.variables import OF_DRIVER

if TYPE_CHECKING:
    from typing import Self

    from helpers_cli import Answer
    from helpers_postgres import Server

#: Variables of an application that uses the same driver.
APPLICATION = {"PGHOST": "app-db", "PGPASSWORD": "theirs", "PGAPPNAME": "shop"}


@pytest.fixture
def clones(tmp_path: Path, postgres_server: Server) -> Clones:
    return Clones(tmp_path, postgres_server)


# Two clones


def test_two_clones_keep_each_other_out(clones: Clones) -> None:
    assert clones.hold(clones.here, "lock", "app/x.rb", "--holder", "anna").code == 0
    refused = clones.hold(clones.there, "lock", "app/x.rb", "--holder", "bob")
    assert refused.code == 3
    assert "anna" in refused.err
    assert clones.hold(clones.there, "check", "app/y.rb").code == 0
    for folder in (clones.here, clones.there):
        found = clones.hold(folder, "status", "--json").json
        assert found["store"] == clones.shown
        assert found["root"] == str(folder)
        assert [one["holder"] for one in found["grants"]] == ["anna"]
        assert not (folder / ".holdfast/ledger.db").exists()


def test_no_command_shows_the_password(clones: Clones) -> None:
    url = clones.server.url()
    for words in ([], ["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"],
                  ["log", "--json"], ["blockers"], ["whoami", "--json"]):  # fmt: skip
        clones.hold(clones.here, *words)  # which looks for it
    wrong = url.replace("@127.0.0.1", "x@127.0.0.1")
    away = url.replace(f":{clones.server.port}/", ":1/")
    for bad in (wrong, away, f"{url}\t", url.replace("//", "")):
        assert clones.hold(clones.here, "status", env={"HOLDFAST_STORE": bad}).code != 0
        assert clones.hold(clones.here, "--store", bad, "status", env={}).code != 0
    assert clones.server.password not in (clones.here / ".holdfast/server.json").read_text()


def test_the_option_holds_for_the_command_and_marks_the_clone(clones: Clones) -> None:
    url = clones.server.url(password=False)
    password = {"PGPASSWORD": clones.server.password}
    done = clones.hold(clones.here, "--store", url, "status", "--json", env=password)
    assert done.json["store"] == clones.shown
    refused = clones.hold(clones.here, "status", env=password)
    assert refused.code == 1
    assert "nothing here names that server" in refused.err


def test_the_settings_and_a_password_file_are_enough_in_any_shell(
    clones: Clones, tmp_path: Path
) -> None:
    clones.set(clones.here, store=clones.server.url(password=False))
    file = clones.server.password_file(tmp_path / "secrets")
    done = clones.hold(clones.here, "status", "--json", env={"PGPASSFILE": str(file)})
    assert done.json["store"] == clones.shown


def test_a_command_outside_of_a_repository_that_only_looks_makes_nothing(
    clones: Clones, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    done = clones.hold(outside, "status")
    assert done.code == 0
    assert "there is no ledger here yet" in done.err
    assert list(outside.iterdir()) == []


def test_a_lock_outside_of_a_repository_begins_a_tree_there(clones: Clones, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    env = {"HOLDFAST_STORE": clones.server.url(f"outside {clones.name}")}
    assert clones.hold(outside, "lock", "notes.txt", env=env).code == 0
    assert (outside / ".holdfast/server.json").exists()
    assert clones.hold(outside, "status", "--json", env=env).json["grants"]


def test_git_ignores_what_a_clone_keeps_also_in_a_folder_that_was_there(clones: Clones) -> None:
    (clones.here / ".holdfast").mkdir()  # made by a person, for a tree of its own
    clones.hold(clones.here, "status")
    assert clones.git(clones.here, "status", "--porcelain") == ""


def test_a_clone_that_lost_its_variable_is_refused_by_each_command(clones: Clones) -> None:
    clones.hold(clones.here, "status")
    for words in (["status"], ["lock", "app/x.rb"], ["check", "app/x.rb"], ["log"], []):
        refused = clones.hold(clones.here, *words, env={})
        assert refused.code == 1, words
        assert "set HOLDFAST_STORE to its URL" in refused.err
    assert not (clones.here / ".holdfast/ledger.db").exists()
    doctor = clones.hold(clones.here, "doctor", env={})
    assert "nothing here names that server" in doctor.out


def test_a_person_can_switch_the_gate_off_while_no_server_is_named(clones: Clones) -> None:
    """Switching it off is the way out of any trouble with the ledger."""
    from holdfast.cli.guarding.off_and_on import _recorded

    clones.hold(clones.here, "status")
    assert "could not be logged" in _recorded(str(clones.here), "gate_off", {})
    clones.set(clones.here, store="postgresql://a:b@c/d")
    assert "could not be logged" in _recorded(str(clones.here), "gate_off", {})


# Hooks


class Client:
    """A process that counts as Claude Code, and its hook."""

    def __init__(self, clones: Clones, folder: Path, **env: str) -> None:
        self.clones, self.folder, self.env = clones, folder, env
        self.process = subprocess.Popen(["sleep", "600"], env={**os.environ, **env})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def edit(self, name: str = "app/x.rb") -> str:
        """Why the hook refuses an edit; empty if it does not."""
        data = sample("claude", "PreToolUse-Write")
        data |= {"cwd": str(self.folder), "session_id": f"5e55104e-{id(self) % 10**9}"}
        data["tool_input"] |= {"file_path": str(self.folder / name)}
        known = {"CLAUDE_PID": str(self.process.pid), "CLAUDE_PROJECT_DIR": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(HOOK), "claude"], input=json.dumps(data), cwd="/",
            env=environment(**known, **self.env), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert self.clones.server.password not in done.stdout
        found = json.loads(done.stdout)["hookSpecificOutput"] if done.stdout.strip() else {}
        return str(found.get("permissionDecisionReason", ""))


def test_a_hook_refuses_a_file_that_another_clone_holds(clones: Clones) -> None:
    (clones.here / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    clones.hold(clones.here, "status")
    clones.hold(clones.there, "lock", "app/x.rb", "--holder", "bob")
    with Client(clones, clones.here, **clones.store) as client:
        assert "bob" in client.edit()
        assert client.edit("app/y.rb") == ""
        held = clones.hold(clones.there, "status", "--json").json["grants"]
    paths = sorted(path for one in held for path in one["write_paths"])
    assert paths == ["app/x.rb", "app/y.rb"]


def test_a_hook_without_the_variable_refuses_and_begins_no_second_ledger(clones: Clones) -> None:
    clones.hold(clones.here, "status")
    with Client(clones, clones.here) as client:
        assert "nothing here names that server" in client.edit()
    assert not (clones.here / ".holdfast/ledger.db").exists()


def test_a_hook_refuses_where_the_settings_name_the_server_with_a_password(clones: Clones) -> None:
    clones.set(clones.here, store=clones.server.url())
    (clones.here / ".holdfast").mkdir()
    with Client(clones, clones.here) as client:
        assert "store in holdfast.toml must be" in client.edit()
    assert not (clones.here / ".holdfast/ledger.db").exists()


def test_the_keeper_of_a_client_reaches_the_server_by_the_clients_variables(
    clones: Clones,
) -> None:
    clones.hold(clones.here, "status")
    password = {"PGPASSWORD": clones.server.password}
    clones.set(clones.here, store=clones.server.url(password=False))
    with Client(clones, clones.here, **password) as client:
        assert client.edit() == ""
        beside = clones.here / ".holdfast/beside"
        until(lambda: beside.is_dir() and any(beside.iterdir()), "a keeper")
        client.process.kill()
        client.process.wait()
        until(
            lambda: not clones.hold(clones.there, "status", "--json").json["grants"],
            "the keeper to release the leases of its dead client",
        )


def test_people_hear_that_a_file_is_free_that_another_clone_released(
    clones: Clones, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    command = ["sh", "-c", f"echo $HOLDFAST_NOTICE ${{HOLDFAST_STORE:+leads}} >> {heard}"]
    (clones.here / "holdfast.toml").write_text(
        f"notify = {json.dumps(command)}\n[gate]\nhold_seconds = 0\nretry_seconds = 0.01\n"
    )
    clones.hold(clones.here, "status")
    clones.hold(clones.there, "lock", "app/x.rb", "--holder", "bob")
    with Client(clones, clones.here, **clones.store) as client:
        assert "bob" in client.edit()
        until(lambda: bool(client.edit()) and heard.exists(), "a blocked agent")
        clones.hold(clones.there, "unlock", "app/x.rb", "--holder", "bob")
        until(lambda: "free" in heard.read_text(), "the notice that it is free")
    assert "leads" not in heard.read_text(), "the command has no rights on the ledger"


def test_a_linked_worktree_gives_its_own_ledger_to_the_server(
    clones: Clones, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    clones.git(clones.here, "worktree", "add", "-q", str(linked))
    (linked / ".holdfast").mkdir()
    with Client(clones, linked) as client:
        assert client.edit() == ""
        assert (linked / ".holdfast/ledger.db").exists()
        assert clones.hold(clones.here, "init", "--client", "claude", "--no-git").code == 0
        assert not (linked / ".holdfast").exists()
        held = clones.hold(clones.there, "status", "--json").json["grants"]
    assert [one["write_paths"] for one in held] == [["../linked/app/x.rb"]]


# What a command gets


def environ_of(said: Answer) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in said.out.splitlines())


def leading(found: dict[str, str]) -> list[str]:
    """The variables that lead to the server."""
    return sorted({"HOLDFAST_STORE", *OF_DRIVER} & set(found))


def test_the_command_of_a_plain_run_keeps_its_callers_variables(clones: Clones) -> None:
    """It has no runner to ask, and a person started it."""
    line = f'test "$HOLDFAST_STORE" = "{clones.server.url()}" && echo the same'
    said = clones.hold(clones.here, "run", "--write", "app/x.rb", "--", "sh", "-c", line)
    assert said.out == "the same\n"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("by", ["variable", "settings"])
def test_a_sandboxed_command_has_nothing_that_leads_to_the_server_and_asks_its_runner(
    clones: Clones, by: str
) -> None:
    env = given(clones, by)
    line = "env; exec >&2; python -m holdfast status --json".replace("python", sys.executable)
    words = ["run", "--sandbox", "--write", "app/x.rb", "--", "sh", "-c", line]
    said = clones.hold(clones.here, *words, env=env)
    found = environ_of(said)
    assert leading(found) == []
    assert found["PGAPPNAME"] == "shop", "which leads nowhere"
    inside = json.loads(said.err.splitlines()[-1])
    assert inside["store"] == clones.shown
    assert [one["write_paths"] for one in inside["grants"]] == [["app/x.rb"]]


@NEEDS_BROKER
@pytest.mark.parametrize("by", ["variable", "settings"])
def test_a_leased_command_has_nothing_that_leads_to_the_server_and_its_broker_leases(
    clones: Clones, by: str
) -> None:
    env = given(clones, by)
    clones.hold(clones.there, "lock", "app/y.rb", "--holder", "bob")
    status = f"{sys.executable} -m holdfast status --json"
    line = f"env; echo new >app/x.rb; echo new >app/y.rb; exec >&2; {status}"
    said = clones.hold(clones.here, "run", "--lease", "--", "sh", "-c", line, env=env)
    assert leading(environ_of(said)) == []
    assert (clones.here / "app/x.rb").read_text() == "new\n"
    assert (clones.here / "app/y.rb").read_text() == "old\n", "another clone holds it"
    assert "bob" in said.err
    inside = json.loads([one for one in said.err.splitlines() if one.startswith("{")][-1])
    assert inside["store"] == clones.shown
    assert sorted(one["write_paths"] for one in inside["grants"]) == [["app/x.rb"], ["app/y.rb"]]


def given(clones: Clones, by: str) -> dict[str, str]:
    """An environment in which the server is named in one of two ways."""
    password = {"PGPASSWORD": clones.server.password, "PGAPPNAME": "shop"}
    if by == "variable":
        return {"HOLDFAST_STORE": clones.server.url(password=False), **password}
    clones.set(clones.here, store=clones.server.url(password=False))
    return password


@NEEDS_LANDLOCK
def test_with_an_embedded_ledger_the_variables_of_an_application_stay(clones: Clones) -> None:
    words = ["run", "--sandbox", "--write", "app/x.rb", "--", "env"]
    found = environ_of(clones.hold(clones.here, *words, env=APPLICATION))
    assert {name: found.get(name) for name in APPLICATION} == APPLICATION


@NEEDS_BROKER
def test_a_broker_in_a_sandbox_without_network_says_so(clones: Clones) -> None:
    env = {**clones.store, "CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    words = ["--json", "run", "--lease", "--", "sh", "-c", "echo new >app/x.rb"]
    said = clones.hold(clones.here, "run", "--lease", *words[3:], env=env)
    assert said.code != 0
    assert "the ledger is on a server, and the sandbox around this command" in said.err
    assert (clones.here / "app/x.rb").read_text() == "old\n"
    embedded = clones.hold(clones.there, *words[1:], env={"CODEX_SANDBOX_NETWORK_DISABLED": "1"})
    assert embedded.code == 0, "an embedded ledger needs no network"


@NEEDS_BROKER
@pytest.mark.parametrize("call", ["connect", "socket"])
def test_a_filter_that_refuses_connections_is_noticed_without_any_variable(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    from holdfast.gate.broker import command_start

    class Line:
        def __init__(self, *_: object) -> None:
            if call == "socket":
                raise PermissionError(1, os.strerror(1))

        def connect(self, _where: object) -> None:
            raise PermissionError(1, os.strerror(1))

        def close(self) -> None:
            pass

    monkeypatch.delenv("CODEX_SANDBOX_NETWORK_DISABLED", raising=False)
    assert not command_start._is_cut_off()
    monkeypatch.setattr("_socket.socket", Line)
    assert command_start._is_cut_off()


# The doctor


def test_the_doctor_says_that_clients_inherit_what_leads_to_the_server(clones: Clones) -> None:
    findings = {
        (one["about"], one["check"]): one
        for one in clones.hold(clones.here, "doctor", "--json").json["findings"]
    }
    assert clones.shown in findings["ledger", "server"]["detail"]
    told = findings["ledger", "variables"]
    assert told["state"] == "note"
    assert "HOLDFAST_STORE with a password" in told["detail"]


def test_the_doctor_names_a_client_at_work_that_has_the_url(clones: Clones, tmp_path: Path) -> None:
    clones.hold(clones.here, "status")
    clones.set(clones.here, store=clones.server.url(password=False))
    with Client(clones, clones.here, **clones.store) as client:
        assert client.edit() == ""
        # libpq's own place for a person's password file needs no variable
        clones.server.password_file(tmp_path / ".pgpass")
        found = clones.hold(clones.here, "doctor", "--json", env={"HOME": str(tmp_path)})
    notes = [one["detail"] for one in found.json["findings"] if one["check"] == "variables"]
    assert len(notes) == 1
    assert f"(pid {client.process.pid}) has HOLDFAST_STORE with a password" in notes[0]


def test_the_doctor_says_that_leases_were_left_in_the_clone(clones: Clones) -> None:
    assert clones.hold(clones.here, "lock", "app/x.rb", "--holder", "old", env={}).code == 0
    said = clones.hold(clones.here, "doctor", "--json").json["findings"]
    (left,) = [one for one in said if one["check"] == "left behind"]
    assert "old still hold leases" in left["detail"]
