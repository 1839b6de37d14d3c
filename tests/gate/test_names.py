"""Names of agents: unique in a ledger, and such that a person finds the window."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_cli import COMMAND, as_a_person, environment
from helpers_commits import Actor, Done, Repo
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.core.model import Holder, Witness, agent_key, ids_of
from holdfast.gate.config.settings import Settings
from holdfast.gate.git import git_hooks
from holdfast.gate.intent import ALLOW
from holdfast.gate.lease_gate import LeaseGate
from holdfast.gate.people import agent_lookup, blocked_agents
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from stage import Stage

#: Two sessions that began in the same minute, with ids as Codex makes them.
ONE = "019a1b2c-3d4e-7f00-8000-5a5a5a5a5a01"
TWO = "019a1b2c-3d4e-7f11-8111-6b6b6b6b6b02"


class Book:
    """A ledger, and the agents in it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def holder(self, session: str, agent: str, client: str, witness: Witness | None) -> Holder:
        key = agent_key(client, session, agent)
        witness = witness or self.stage.agent(session).stage.clients[session]
        return Holder(
            id=key, key=key, witness=witness, client=client, session=session, agent=agent,
            parent=agent_key(client, session) if agent else "",
        )  # fmt: skip

    def gate(
        self,
        session: str,
        agent: str = "",
        *,
        client: str = "codex",
        place: str = "pts/3",
        witness: Witness | None = None,
    ) -> LeaseGate:
        holder = self.holder(session, agent, client, witness)
        return LeaseGate(self.stage.manager, holder, Settings(), place=lambda: place)

    def meet(self, session: str, agent: str = "", **more: Any) -> str:
        """Handle an event of an agent; its name from then on."""
        gate = self.gate(session, agent, **more)
        gate.live_on()
        return self.called(session, agent, more.get("client", "codex"))

    def called(self, session: str, agent: str = "", client: str = "codex") -> str:
        key = agent_key(client, session, agent)
        known = transactions.look(self.stage.manager, lambda view: agent_records.known(view, key))
        assert known.presence is not None
        return known.presence.shown

    @property
    def head(self) -> int:
        return transactions.look(self.stage.manager, lambda view: view.head)

    def owner(self, name: str) -> str:
        return transactions.look(
            self.stage.manager, lambda view: agent_records.owner_of_name(view, name)
        )


@pytest.fixture
def book(repository: Path) -> Iterator[Book]:
    stage = Stage(repository)
    yield Book(stage)
    stage.close()


# Names that Holdfast chooses


def test_a_name_is_the_client_the_place_and_the_end_of_the_id(book: Book) -> None:
    assert book.meet(ONE) == "codex@pts/3:5a01"
    assert book.meet("s-faf2", client="claude", place="shop") == "claude@shop:faf2"
    assert book.meet("ab", place="") == "codex:ab"


def test_ids_that_differ_only_at_the_end_are_told_apart_by_it(book: Book) -> None:
    assert book.meet("same-beginning-1111") == "codex@pts/3:1111"
    assert book.meet("same-beginning-2222") == "codex@pts/3:2222"


def test_ids_that_differ_only_at_the_front_grow_until_they_differ(book: Book) -> None:
    assert book.meet("a-same-end") == "codex@pts/3:eend"
    assert book.meet("b-same-end") == "codex@pts/3:meend"
    assert book.meet("c-same-end") == "codex@pts/3:ameend"
    assert book.meet("d-same-end") == "codex@pts/3:sameend"
    assert book.meet("e-same-end") == "codex@pts/3:esameend"
    assert book.meet("a-same-end") == "codex@pts/3:eend", "an agent keeps its name"


def test_where_the_whole_id_is_no_help_a_number_is(book: Book) -> None:
    assert [book.meet(id) for id in ("a-b", "a.b", "ab")] == [
        "codex@pts/3:ab", "codex@pts/3:ab~2", "codex@pts/3:ab~3",
    ]  # fmt: skip
    assert [book.meet(id) for id in ("a-b", "a.b", "ab")] == [
        "codex@pts/3:ab", "codex@pts/3:ab~2", "codex@pts/3:ab~3",
    ]  # fmt: skip


def test_an_id_without_letters_is_a_name_too(book: Book) -> None:
    names = {book.meet(id) for id in ("-", "--", "...", "_-_-_-")}
    assert len(names) == 4
    assert "codex@pts/3:-" in names


def test_two_clients_or_two_places_need_no_longer_names(book: Book) -> None:
    assert book.meet("x-faf2", client="claude") == "claude@pts/3:faf2"
    assert book.meet("y-faf2") == "codex@pts/3:faf2"
    assert book.meet("z-faf2", place="pts/4") == "codex@pts/4:faf2"


def test_a_sub_agent_is_named_below_its_session(book: Book) -> None:
    session = book.meet(ONE)
    assert book.meet(ONE, "kid-9c1e") == f"{session}/9c1e"
    assert book.meet(ONE, "other-9c1e") == f"{session}/r9c1e"
    assert book.meet(TWO, "kid-9c1e") == "codex@pts/3:6b02/9c1e"


def test_a_session_whose_sub_agent_came_first_has_the_name_that_that_begins_with(
    book: Book,
) -> None:
    assert book.meet("a-same-end", "kid") == "codex@pts/3:eend/kid"
    assert book.meet("b-same-end") == "codex@pts/3:meend", "the name is taken"
    assert book.meet("a-same-end") == "codex@pts/3:eend"


def test_what_goes_up_from_a_sub_agent_goes_to_the_name_that_its_own_begins_with(
    book: Book, repository: Path
) -> None:
    gate = book.gate(ONE, "kid")
    assert gate.permit([str(repository / "app/x.rb")]).kind == "allow"
    (repository / "app/x.rb").write_text("changed\n")
    gate.end_agent()
    [grant] = book.stage.manager.active_grants()
    assert (grant.owner.key, grant.holder) == (agent_key("codex", ONE), "codex@pts/3:5a01")
    assert book.meet(ONE) == "codex@pts/3:5a01"


# Names that are kept


def test_the_name_of_a_session_that_ended_is_given_to_nobody_else(book: Book) -> None:
    first = book.meet("a-same-end")
    book.gate("a-same-end").end_session()
    assert book.meet("b-same-end") != first
    assert book.meet("a-same-end") == first, "an agent that continues keeps its name"


def test_the_name_of_a_sub_agent_that_ended_is_given_to_nobody_else(book: Book) -> None:
    first = book.meet(ONE, "kid-9c1e")
    book.gate(ONE, "kid-9c1e").end_agent()
    assert book.meet(ONE, "new-9c1e") != first


def test_a_session_that_goes_on_in_another_terminal_is_called_after_that(
    book: Book, repository: Path
) -> None:
    gate = book.gate("a-same-end")
    gate.session_start()
    assert gate.permit([str(repository / "app/x.rb")]).kind == "allow"
    old = book.called("a-same-end")
    book.stage.kill("a-same-end")
    book.stage.restart("a-same-end")
    book.gate("a-same-end", place="pts/7").session_start()
    assert book.called("a-same-end") == "codex@pts/7:eend"
    [grant] = book.stage.manager.active_grants()
    assert grant.holder == "codex@pts/7:eend", "its files are under the new name"
    assert book.meet("b-same-end", place="pts/3") != old
    assert {book.owner(old), book.owner("codex@pts/7:eend")} == {agent_key("codex", "a-same-end")}


def test_a_name_does_not_follow_a_terminal_that_nobody_went_to(book: Book) -> None:
    assert book.meet(ONE) == book.meet(ONE, place="pts/9") == "codex@pts/3:5a01"


# Agents that a person names


def test_one_that_is_blocked_can_be_resumed_by_a_name_that_it_had(
    book: Book, repository: Path
) -> None:
    path = str(repository / "app/x.rb")
    assert book.gate("aaaa-owner").permit([path]).kind == "allow"
    old = book.meet(ONE)
    assert book.gate(ONE).permit([path]).kind == "deny"
    book.stage.clock.advance(181)
    assert book.gate(ONE).permit([path]).kind == "halt"
    book.stage.restart(ONE)
    new = book.meet(ONE, place="pts/9")
    assert new != old
    assert blocked_agents.resume(book.stage.manager, "ann", agent="codex") == []
    assert blocked_agents.resume(book.stage.manager, "ann", agent=new[:-1]) == []
    [found] = blocked_agents.resume(book.stage.manager, "ann", agent=new)
    assert (found["agent"], found["agent_key"]) == (old, agent_key("codex", ONE))


def test_a_name_that_two_had_before_names_were_unique_resumes_neither(book: Book) -> None:
    manager, keys = book.stage.manager, [agent_key("codex", ONE), agent_key("codex", TWO)]
    for key in keys:
        report = {"agent": "codex:019a1b2c", "blocked_file": "app/x.rb"}
        block = {"agent": "codex:019a1b2c", "report": report}
        transactions.note(manager, agent_records.BLOCKED, block, name=f"gate:{key}:blocked:1")
    assert blocked_agents.resume(manager, "ann", agent="codex:019a1b2c") == []
    assert [
        one["agent_key"] for one in blocked_agents.resume(manager, "ann", agent=keys[1])
    ] == keys[1:]
    resumed = blocked_agents.resume(manager, "ann", agent="codex:019a1b2c")
    assert [one["agent_key"] for one in resumed] == keys[:1], "only one match is left"


# At the command line


def test_at_the_command_line_an_agent_has_the_name_that_the_ledger_knows(book: Book) -> None:
    name = book.meet(ONE)
    typed = Holder(
        id=f"codex:{ONE}", key=agent_key("codex", ONE), client="codex", session=ONE, user="u"
    )
    assert agent_lookup.known_as(book.stage.manager, typed).id == name
    head = book.head
    assert agent_lookup.introduced(book.stage.manager, typed).id == name
    assert book.head == head, "introducing a known agent writes nothing"


def test_one_of_whom_the_ledger_has_not_heard_gets_a_name_that_stays_its_own(book: Book) -> None:
    key = agent_key("codex", "a-same-end")
    typed = Holder(id="codex:a-same-end", key=key, client="codex", session="a-same-end")
    first = agent_lookup.known_as(book.stage.manager, typed)
    assert book.owner(first.id) == "", "a lookup writes nothing"
    assert agent_lookup.introduced(book.stage.manager, typed) == first
    assert book.owner(first.id) == key
    place = first.id.partition("@")[2].partition(":")[0]
    assert book.meet("b-same-end", place=place) != first.id
    assert book.called("a-same-end") == first.id


@pytest.mark.parametrize("holder", [Holder(id="ann"), Holder(id="codex:17", client="codex")])
def test_people_and_clients_without_a_session_keep_their_names(book: Book, holder: Holder) -> None:
    assert agent_lookup.known_as(book.stage.manager, holder) is holder
    assert agent_lookup.introduced(book.stage.manager, holder) is holder


# Through the hook, in processes


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = Repo(tmp_path)
    yield made
    made.close()


def edit(actor: Actor, path: str, at: str = "") -> dict[str, Any]:
    """The hook's answer to an edit of an agent whose cwd is a folder of the repository."""
    text = f"*** Begin Patch\n*** Add File: {actor.repo.root}/{path}\n+x\n*** End Patch\n"
    tools: dict[str, tuple[str, dict[str, str]]] = {
        "codex": ("apply_patch", {"command": text}),
        "claude": ("Write", {"file_path": f"{actor.repo.root}/{path}", "content": "x"}),
    }
    tool, fields = tools[actor.client]
    told = {
        "session_id": actor.session, "cwd": str(actor.repo.root / at),
        "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": fields,
    }  # fmt: skip
    env = actor.shell() if actor.client == "claude" else {}
    done = actor.run(*git_hooks.command(), actor.client, text=json.dumps(told), env=env)
    assert done.code == 0, done
    return dict(json.loads(done.said)) if done.said else {}


def refusal(said: dict[str, Any]) -> str:
    return str(said.get("hookSpecificOutput", {}).get("permissionDecisionReason", ""))


def person(repo: Repo, *words: str) -> Done:
    """A command that a person types."""
    done = subprocess.run(
        as_a_person(*COMMAND, *words), cwd=repo.root, env=environment(), capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def names(repo: Repo) -> dict[str, str]:
    """The names of the sessions in the ledger."""
    with LockManager.open(repo.root) as manager:
        return {one.session: one.shown for one in transactions.look(manager, agent_records.present)}


@LINUX_ONLY
@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_name_says_in_which_terminal_the_client_runs(repo: Repo, client: str) -> None:
    repo.start("a.py")
    master, slave = pty.openpty()
    try:
        terminal = os.ttyname(slave)
        ann = repo.actor(client, ONE, terminal)
        assert edit(ann, "a.py") == {}
        place = terminal.removeprefix("/dev/")
        assert place.startswith("pts/")
        assert names(repo) == {ONE: f"{client}@{place}:5a01"}
        said = json.loads(ann.run(*COMMAND, "whoami", "--json").said)
        assert said["id"] == names(repo)[ONE]
        assert (said["key"], said["session"]) == (agent_key(client, ONE), ONE)
    finally:
        os.close(master)
        os.close(slave)


@LINUX_ONLY
def test_without_a_terminal_the_name_says_in_which_folder(repo: Repo) -> None:
    repo.start("a.py")
    ann = repo.actor("claude", ONE)
    assert edit(ann, "a.py") == {}
    assert names(repo) == {ONE: "claude@arepo:5a01"}


@LINUX_ONLY
def test_what_an_agent_locks_by_a_command_is_under_the_name_of_its_edits(repo: Repo) -> None:
    repo.start("a.py", "b.py")
    ann = repo.actor("codex", ONE)
    (repo.root / "deep").mkdir()
    assert ann.run(*COMMAND, "lock", "../b.py", at=repo.root / "deep").code == 0
    assert edit(ann, "a.py", at="deep") == {}
    found = json.loads(person(repo, "status", "--json").said)["grants"]
    assert {one["holder"] for one in found} == {names(repo)[ONE]}
    assert {one["owner"]["key"] for one in found} == {agent_key("codex", ONE)}
    assert {one["owner"]["session"] for one in found} == {ONE}
    other = repo.actor("codex", TWO)
    refused = other.run(*COMMAND, "unlock", "b.py")
    assert refused.code == 4
    assert names(repo)[ONE] in refused.complained
    assert ann.run(*COMMAND, "unlock", "b.py").code == 0


@LINUX_ONLY
def test_two_sessions_of_the_same_minute_are_two_agents_everywhere(repo: Repo) -> None:
    """They are refused, listed, blocked and resumed each by its own name."""
    repo.start("a.py", "b.py")
    (repo.root / "holdfast.toml").write_text("[gate]\nretry_seconds = 0.01\nhold_seconds = 0\n")
    holder = repo.actor("claude", "aaaa-owner")
    one, two = repo.actor("codex", ONE), repo.actor("codex", TWO)
    assert edit(holder, "a.py") == edit(holder, "b.py") == {}
    for actor, path in ((one, "a.py"), (two, "b.py")):
        assert names(repo)["aaaa-owner"] in refusal(edit(actor, path))
    shown = {session: name for session, name in names(repo).items() if session in (ONE, TWO)}
    assert len(set(shown.values())) == 2
    waiting = json.loads(person(repo, "status", "--json").said)["waiting"]
    assert {one["owner"]["session"]: one["holder"] for one in waiting} == shown
    for actor, path in ((one, "a.py"), (two, "b.py")):
        assert "waiting for instruction" in refusal(edit(actor, path))
    blocked = json.loads(person(repo, "blockers", "--json").said)["blockers"]
    assert {one["session"]: one["agent"] for one in blocked} == shown
    assert [one["agent_key"] for one in blocked] == [
        agent_key("codex", ONE), agent_key("codex", TWO),
    ]  # fmt: skip
    assert {one["owner_key"] for one in blocked} == {agent_key("claude", "aaaa-owner")}

    wrong = person(repo, "resume", "codex")
    assert wrong.code == 1
    assert all(name in wrong.complained for name in shown.values()), wrong
    done = person(repo, "resume", shown[TWO], "--json")
    assert [one["session"] for one in json.loads(done.said)["resumed"]] == [TWO]
    left = json.loads(person(repo, "blockers", "--json").said)["blockers"]
    assert [one["session"] for one in left] == [ONE]
    assert "waiting for instruction" in refusal(edit(one, "b.py")), "ONE is still blocked"
    done = person(repo, "resume", agent_key("codex", ONE), "--json")
    assert [one["agent"] for one in json.loads(done.said)["resumed"]] == [shown[ONE]]
    log = [json.loads(line) for line in person(repo, "log", "--json").said.splitlines()]
    heard = [event["data"] for event in log if event["type"] == "contention_heartbeat"]
    assert [(data["agent"], data["key"], data["session"]) for data in heard] == [
        (shown[ONE], agent_key("codex", ONE), ONE), (shown[TWO], agent_key("codex", TWO), TWO),
    ]  # fmt: skip


# Keys


IDS = st.text(alphabet="ab/:%25", max_size=6)


@given(one=st.tuples(IDS, IDS), other=st.tuples(IDS, IDS))
def test_no_two_agents_have_one_key_whatever_is_in_their_ids(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert ids_of(agent_key("codex", *one)) == one
    assert (agent_key("codex", *one) == agent_key("codex", *other)) == (one == other)
    session = agent_key("codex", one[0])
    assert agent_key("codex", *other).startswith(session) == (one[0] == other[0])
    notes = agent_records.of_agent(agent_key("codex", *one))
    assert f"{agent_records.of_agent(agent_key('codex', *other))}rest".startswith(notes) == (
        one == other
    )


def test_the_end_of_a_session_is_not_that_of_one_whose_id_goes_on(book: Book) -> None:
    assert book.gate("a/b").permit(["x"]).kind == ALLOW
    assert book.gate("a", "b:c").permit(["y"]).kind == ALLOW
    assert book.gate("a").permit(["z"]).kind == ALLOW
    book.gate("a").end_session()
    assert [grant.write_paths for grant in book.stage.manager.active_grants()] == [("x",)]
