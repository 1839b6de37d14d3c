"""lock, unlock, renew, steal, check: their text, their JSON and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import holdfast
from helpers_cli import COMMAND, QuickRepository, Repository, environment
from helpers_processes import until
from holdfast import LockManager
from holdfast.cli.commands import COMMANDS, FAMILIES, everything

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return QuickRepository(tmp_path / "repo")


def test_a_lock_says_whose_it_is_until_when_and_how_to_release_it(repo: Repository) -> None:
    answer = repo.hold("lock", "app/x.rb", "--reason", "fix the parser")
    assert answer.code == 0
    me = repo.hold("whoami", "--json").json
    assert re.fullmatch(
        rf"locked app/x\.rb for {re.escape(me['id'])} until (\w\w\w )?\d\d:\d\d, token \d+\n",
        answer.out,
    )
    assert answer.err == (f"  {me['id']}: {me['how']}\n  release it: holdfast unlock app/x.rb\n")
    [grant] = repo.grants()
    assert (grant["holder"], grant["reason"]) == (me["id"], "fix the parser")
    assert grant["write_paths"] == ["app/x.rb"]


def test_a_lock_as_json_is_the_grant_and_its_holder(repo: Repository) -> None:
    before = time.time()
    answer = repo.hold("lock", "app/x.rb", "--read", "app/models", "--ttl", "2h", "--json")
    assert answer.code == 0
    assert answer.err == ""
    grant = answer.json["grant"]
    assert list(grant) == [
        "id", "holder", "read_paths", "write_paths", "acquired_at", "expires_at", "released",
        "token", "reason",
    ]  # fmt: skip
    assert ID.fullmatch(grant["id"])
    assert UTC.fullmatch(grant["acquired_at"])
    assert UTC.fullmatch(grant["expires_at"])
    assert grant["read_paths"] == ["app/models/"]
    assert grant["write_paths"] == ["app/x.rb"]
    assert grant["token"] >= before * 1e6
    assert answer.json["owner"]["id"] == grant["holder"]
    assert answer.json["how"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("45", 45), ("1.5h", 5400)],
)
def test_times_are_given_as_people_write_them(repo: Repository, text: str, seconds: int) -> None:
    assert repo.hold("lock", "app/x.rb", "--ttl", text).code == 0
    with LockManager.open(repo.root) as manager:
        [grant] = manager.active_grants()
        assert grant.ttl_seconds == seconds


def test_the_default_lease_is_half_an_hour_and_none_means_none(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    answer = repo.hold("lock", "app/y.rb", "--ttl", "none")
    assert "until it is released" in answer.out
    with LockManager.open(repo.root) as manager:
        assert [grant.ttl_seconds for grant in manager.active_grants()] == [1800, None]


def test_a_lock_that_nothing_would_ever_end_says_so(repo: Repository) -> None:
    answer = repo.hold("lock", "app/x.rb", "--holder", "bob", "--ttl", "none")
    assert answer.code == 0
    assert "nothing else ends it" in answer.err


def test_a_conflict_names_the_holder(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob", "--reason", "rename it")
    answer = repo.hold("lock", "app/y.rb", "app/x.rb")
    assert answer.code == 3
    assert answer.out == ""
    first, hint = answer.err.splitlines()
    assert first.startswith("holdfast: app/x.rb has been locked for writing by bob for ")
    assert first.endswith(": rename it")
    assert hint.startswith("  -> ")
    assert repo.holders("app/y.rb") == [], "all or nothing"


def test_a_conflict_as_json_has_a_code_and_the_facts(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob", "--reason", "rename it")
    answer = repo.hold("lock", "app/x.rb", "--json")
    assert (answer.code, answer.err) == (3, "")
    error = answer.error
    assert error["code"] == "E_LOCK_CONFLICT"
    assert error["message"]
    assert error["hint"]
    [conflict] = error["conflicts"]
    assert conflict["holder"] == "bob"
    assert conflict["path"] == conflict["held_path"] == "app/x.rb"
    assert conflict["mode"] == conflict["held_mode"] == "write"
    assert UTC.fullmatch(conflict["since"])
    assert UTC.fullmatch(conflict["until"])


def test_readers_share_and_a_writer_does_not(repo: Repository) -> None:
    assert repo.hold("lock", "--read", "app", "--holder", "ann").code == 0
    assert repo.hold("lock", "--read", "app/x.rb", "--holder", "bob").code == 0
    assert repo.hold("lock", "app/x.rb", "--holder", "cid").code == 3


def test_resources_are_locked_by_name_from_anywhere(repo: Repository) -> None:
    assert repo.hold("lock", "port:5432", "app/x.rb", "--holder", "ann").code == 0
    assert repo.hold("lock", "port:5432", "--holder", "bob", cwd=repo.root / "lib").code == 3
    assert repo.hold("lock", "spec:login").code == 2


def test_a_folder_cannot_be_locked_for_writing(repo: Repository) -> None:
    for word in ("app", "app/", "new/"):
        answer = repo.hold("lock", word, "--json")
        assert (answer.code, answer.error["code"]) == (2, "E_OVER_LOCK")


def test_paths_start_at_the_folder_of_the_caller(repo: Repository) -> None:
    answer = repo.hold("lock", "x.rb", "../lib/z.rb", cwd=repo.root / "app")
    assert answer.out.startswith("locked app/x.rb, lib/z.rb for ")
    assert answer.err.endswith("holdfast unlock x.rb ../lib/z.rb\n")
    assert repo.hold("unlock", "x.rb", "../lib/z.rb", cwd=repo.root / "app").code == 0
    assert repo.grants() == []


def test_c_works_as_if_called_from_there_before_and_after_the_command(
    repo: Repository, tmp_path: Path
) -> None:
    assert repo.hold("-C", repo.root / "app", "lock", "x.rb", cwd=tmp_path).code == 0
    assert repo.hold("unlock", "x.rb", "-C", repo.root, "-Capp", cwd=tmp_path).code == 0
    answer = repo.hold("-C", "nowhere", "status", "--json")
    assert (answer.code, answer.error["code"]) == (2, "E_USAGE")


def test_a_path_elsewhere_uses_the_ledger_of_its_own_repository(
    repo: Repository, tmp_path: Path
) -> None:
    other = QuickRepository(tmp_path / "other")
    assert repo.hold("lock", "../other/app/x.rb").code == 0
    assert repo.grants() == []
    assert [grant["write_paths"] for grant in other.grants()] == [["app/x.rb"]]
    assert repo.hold("lock", "app/x.rb", "../other/app/y.rb", "--json").error["code"] == "E_BAD_KEY"
    assert repo.hold("unlock", other.root / "app/x.rb").code == 0


def test_a_path_in_no_repository_is_refused_and_gets_no_ledger(
    repo: Repository, tmp_path: Path
) -> None:
    (tmp_path / "loose").mkdir()
    answer = repo.hold("lock", "../loose/file", "--json")
    assert (answer.code, answer.error["code"]) == (2, "E_BAD_KEY")
    assert not (tmp_path / "loose/.holdfast").exists()


def test_without_git_the_ledger_is_made_where_the_caller_is(tmp_path: Path) -> None:
    repo = QuickRepository(tmp_path / "repo")
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    assert repo.hold("lock", "sub/file", cwd=plain).code == 0
    assert (plain / ".holdfast").is_dir()
    assert not (plain / "sub/.holdfast").exists()


def test_a_path_outside_of_a_folder_in_no_repository_makes_no_ledger_there_either(
    repo: Repository, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    for words in (["../loose"], ["file", "../loose"], [repo.root / "app/x.rb", "file"]):
        answer = repo.hold("lock", *words, "--json", cwd=tmp_path / "plain")
        assert (answer.code, answer.error["code"]) == (2, "E_BAD_KEY")
    assert list((tmp_path / "plain").iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["status"], ["status", "--all"], ["log"], ["check", "app/x.rb"], ["reap"], ["whoami"],
        ["trim", "--keep", "5"], ["unlock", "app/x.rb"], ["renew", "app/x.rb"],
        ["completion", "bash"],
    ],
)  # fmt: skip
def test_commands_that_only_look_make_no_ledger(repo: Repository, words: list[str]) -> None:
    expected = 4 if words[0] in ("unlock", "renew") else 0
    assert repo.hold(*words).code == expected
    assert not (repo.root / ".holdfast").exists()
    assert not (repo.root / "app/.holdfast").exists()


def test_the_store_can_be_chosen_by_option_and_by_environment(
    repo: Repository, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    url = f"sqlite://{tmp_path}/elsewhere/ledger.db"
    assert repo.hold("lock", "app/x.rb", "--holder", "bob", "--store", url).code == 0
    assert not (repo.root / ".holdfast").exists()
    assert repo.hold("check", "app/x.rb").code == 0
    assert repo.hold("--store", url, "check", "app/x.rb").code == 3
    assert repo.hold("check", "app/x.rb", env={"HOLDFAST_STORE": url}).code == 3
    assert repo.hold("status", "--json", env={"HOLDFAST_STORE": url}).json["store"] == url
    assert repo.hold("check", "app/x.rb", env={"HOLDFAST_STORE": ""}).code == 0


def test_the_ledger_of_another_repository_by_url_is_about_its_own_tree(
    repo: Repository, tmp_path: Path
) -> None:
    other = QuickRepository(tmp_path / "other")
    other.hold("lock", "app/x.rb", "--holder", "bob")
    url = f"sqlite://{other.root}/.holdfast/ledger.db"
    assert repo.hold("check", other.root / "app/x.rb", "--store", url).code == 3
    assert repo.hold("check", "app/x.rb", "--store", url).code == 2


@pytest.mark.parametrize("url", ["memory:", "postgres://x", "sqlite:relative.db", "nonsense"])
def test_a_store_that_makes_no_sense_is_a_usage_error(repo: Repository, url: str) -> None:
    for command in (["lock", "app/x.rb"], ["status"]):
        assert repo.hold(*command, "--store", url).code == 2


def test_a_waiting_request_gets_the_lock_when_it_is_released(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    waiter = repo.start("lock", "app/x.rb", "--wait", "--holder", "ann")
    until(lambda: len(repo.waiting()) == 1, "ann waits")
    assert repo.hold("unlock", "app/x.rb", "--holder", "bob").code == 0
    out, err = waiter.communicate(timeout=30)
    assert waiter.returncode == 0
    assert out.startswith("locked app/x.rb for ann ")
    assert err.startswith("waiting: app/x.rb has been locked for writing by bob ")
    assert repo.holders("app/x.rb") == ["ann"]


def test_a_wait_that_times_out_ends_with_5_and_leaves_no_ticket(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    answer = repo.hold("lock", "--wait", "0.2s", "app/x.rb", "--json")
    assert (answer.code, answer.error["code"]) == (5, "E_LOCK_TIMEOUT")
    assert answer.error["waited_seconds"] == 0.2
    assert repo.waiting() == []


def test_a_bare_wait_does_not_swallow_the_path_behind_it(repo: Repository) -> None:
    answer = repo.hold("lock", "--wait", "app/x.rb", "--json")
    assert answer.json["grant"]["write_paths"] == ["app/x.rb"]


def test_an_interrupted_wait_ends_with_130_and_leaves_no_ticket(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    waiter = repo.start("lock", "app/x.rb", "--wait")
    until(lambda: len(repo.waiting()) == 1, "a request waits")
    waiter.send_signal(2)
    _out, err = waiter.communicate(timeout=30)
    assert waiter.returncode == 130
    assert "Traceback" not in err
    assert repo.waiting() == []


def test_a_request_that_would_deadlock_is_refused_immediately(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    waiter = repo.start("lock", "app/y.rb", "--wait", "--holder", "ann")
    until(lambda: len(repo.waiting()) == 1, "ann waits")
    answer = repo.hold("lock", "app/x.rb", "--wait", "60", "--holder", "bob", "--json")
    assert (answer.code, answer.error["code"]) == (3, "E_LOCK_CYCLE")
    assert [step["holder"] for step in answer.error["circle"]] == ["ann", "bob"]
    waiter.kill()
    waiter.communicate()


# Releasing


def test_unlock_releases_by_path_and_by_grant(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    assert repo.hold("unlock", "app/x.rb").out == "released app/x.rb\n"
    grant = repo.hold("lock", "app/x.rb", "--json").json["grant"]["id"]
    answer = repo.hold("unlock", grant, "--json")
    assert [one["id"] for one in answer.json["released"]] == [grant]
    assert repo.grants() == []


def test_unlock_of_a_path_that_is_not_held_ends_with_4(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    answer = repo.hold("unlock", "app/y.rb", "--json")
    assert (answer.code, answer.error["code"]) == (4, "E_LOCK_NOT_HELD")
    assert repo.hold("unlock", "01a1e126-54ee-7b60-864d-52c6ecb385a4").code == 4


def test_unlock_of_the_lock_of_another_names_its_holder(repo: Repository) -> None:
    grant = repo.hold("lock", "app/x.rb", "--holder", "bob", "--json").json["grant"]["id"]
    answer = repo.hold("unlock", "app/x.rb")
    assert answer.code == 4
    assert "has been locked for writing by bob" in answer.err
    answer = repo.hold("unlock", grant)
    assert answer.code == 4
    assert "belongs to bob" in answer.err
    assert repo.holders("app/x.rb") == ["bob"]


def test_a_grant_is_not_released_in_part(repo: Repository) -> None:
    grant = repo.hold(
        "lock", "app/x.rb", "app/y.rb", "--read", "lib", "--json"
    ).json["grant"]["id"]  # fmt: skip
    answer = repo.hold("unlock", "app/x.rb", "--json")
    assert answer.code == 2
    assert answer.error["grant"] == grant
    assert sorted(answer.error["paths"]) == ["app/y.rb", "lib/"]
    assert grant in answer.error["hint"]
    assert len(repo.grants()) == 1
    assert repo.hold("unlock", "lib/", "app/y.rb", "app/x.rb").code == 0
    assert repo.grants() == []


def test_nothing_is_released_if_one_of_the_names_is_wrong(repo: Repository) -> None:
    mine = repo.hold("lock", "app/x.rb", "--json").json["grant"]["id"]
    other = repo.hold("lock", "app/y.rb", "--holder", "bob", "--json").json["grant"]["id"]
    for words in (["app/x.rb", "lib/z.rb"], ["app/x.rb", other], [mine, other], [mine, "app/y.rb"]):
        assert repo.hold("unlock", *words).code == 4
    assert len(repo.grants()) == 2


def test_two_grants_on_one_path_are_both_released_by_it(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    repo.hold("lock", "app/x.rb")
    assert repo.hold("unlock", "app/x.rb").out == "released app/x.rb\n" * 2


def test_a_grant_is_found_by_another_name_of_the_same_file(repo: Repository) -> None:
    os.link(repo.root / "app/x.rb", repo.root / "app/twin.rb")
    (repo.root / "link").symlink_to("app")
    repo.hold("lock", "app/x.rb")
    assert repo.hold("check", "app/twin.rb", "--holder", "bob").code == 3
    assert repo.hold("unlock", "app/twin.rb").code == 0
    repo.hold("lock", "app/x.rb")
    assert repo.hold("unlock", "link/x.rb").code == 0


def test_a_file_that_was_deleted_meanwhile_can_be_released(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    (repo.root / "app/x.rb").unlink()
    assert repo.hold("unlock", "app/x.rb").code == 0


def test_a_lost_grant_ends_with_4_and_says_how_it_was_lost(repo: Repository) -> None:
    grant = repo.hold("lock", "app/x.rb", "--holder", "ann", "--ttl", "0.01s", "--json").json
    id = grant["grant"]["id"]
    until(lambda: repo.hold("check", "app/x.rb").code == 0, "the lease has run out")
    repo.hold("reap")
    answer = repo.hold("unlock", id, "--holder", "ann", "--json")
    assert (answer.code, answer.error["code"]) == (4, "E_LOCK_EXPIRED")


# Renewing and stealing


def test_renewing_extends_and_never_shortens(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--ttl", "10m")
    [before] = repo.grants()
    assert repo.hold("renew", "app/x.rb", "--ttl", "1s").code == 0
    assert repo.grants()[0]["expires_at"] == before["expires_at"]
    answer = repo.hold("renew", before["id"], "--ttl", "3h", "--json")
    [renewed] = answer.json["renewed"]
    assert renewed["expires_at"] > before["expires_at"]
    assert re.match(r"renewed app/x\.rb: until ", repo.hold("renew", "app/x.rb").out)
    assert repo.hold("renew", "app/x.rb", "--ttl", "none").code == 2


def test_only_the_holder_renews(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    assert repo.hold("renew", "app/x.rb").code == 4
    assert repo.hold("renew", "app/x.rb", "--holder", "bob").code == 0
    assert repo.hold("renew", "app/y.rb", "--holder", "bob").code == 4


def test_renewing_what_has_expired_ends_with_4(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob", "--ttl", "0.01s")
    until(lambda: repo.hold("check", "app/x.rb").code == 0, "the lease has run out")
    answer = repo.hold("renew", "app/x.rb", "--holder", "bob", "--json")
    assert (answer.code, answer.error["code"]) == (4, "E_LOCK_EXPIRED")


def test_an_expired_lease_can_be_stolen_and_a_live_one_cannot(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob", "--ttl", "0.01s")
    until(lambda: repo.hold("check", "app/x.rb").code == 0, "the lease has run out")
    answer = repo.hold("steal", "app/x.rb", "--holder", "ann")
    assert answer.code == 0
    assert answer.out.startswith("stole app/x.rb for ann ")
    [stolen] = [event for event in repo.events() if event["type"] == "lock_stolen"]
    assert (stolen["data"]["holder"], stolen["data"]["by"]["holder"]) == ("bob", "ann")
    assert repo.hold("steal", "app/x.rb", "--holder", "cid").code == 3
    assert repo.hold("steal", "app/y.rb", "--holder", "cid", "--json").error["code"] == (
        "E_LOCK_NOT_HELD"
    )


# Checking


def test_check_prints_free_or_the_holder_in_the_way(repo: Repository) -> None:
    assert (repo.hold("check", "app/x.rb").code, repo.hold("check", "app/x.rb").out) == (
        0,
        "free\n",
    )
    repo.hold("lock", "--read", "app", "--holder", "bob")
    answer = repo.hold("check", "app/x.rb", "app/y.rb", "lib/z.rb")
    assert answer.code == 3
    assert [line.rsplit(" for ", 1)[0] for line in answer.out.splitlines()] == [
        "app/x.rb has been locked for reading by bob",
        "app/y.rb has been locked for reading by bob",
    ]  # fmt: skip
    assert repo.hold("check", "--read", "app/x.rb").code == 0
    found = repo.hold("check", "app/x.rb", "--json")
    assert found.code == 3
    assert found.json["free"] is False
    assert [one["holder"] for one in found.json["conflicts"]] == ["bob"]
    assert repo.hold("check", "lib/z.rb", "--json").json == {"free": True, "conflicts": []}


def test_check_ignores_the_locks_of_the_caller(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    assert repo.hold("check", "app/x.rb").code == 0
    assert repo.hold("check", "app/x.rb", "--holder", "bob").code == 3


def test_check_changes_nothing(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    before = repo.events()
    repo.hold("check", "app/x.rb")
    assert repo.events() == before


# The line itself


@pytest.mark.parametrize(
    "words",
    [
        ["lock"], ["unlock"], ["renew"], ["steal"], ["check"], ["run"], ["trim"],
        ["run", "--write", "app/x.rb"], ["run", "true"], ["lock", "app/x.rb", "--ttl", "soon"],
        ["lock", "app/x.rb", "--ttl", "0"], ["lock", "app/x.rb", "--ttl", "nan"],
        ["lock", "app/x.rb", "--wait=soon"], ["lock", "app/x.rb", "--nonsense"],
        ["lock", "app/x.rb", "--ttl"], ["lock", "--json=yes", "app/x.rb"], ["lock", ""],
        ["lock", "  "], ["lock", "/etc/passwd"], ["lock", "../../../../etc/passwd"],
        ["lock", "a\nb"], ["lock", b"\xff\xfe".decode("utf-8", "surrogateescape")],
        ["lock", "x" * 300], ["lock", "app/x.rb", "--holder", ""],
        ["lock", "app/x.rb", "--holder", "two\nlines"], ["lock", ".holdfast/ledger.db"],
        ["lock", "port:0"], ["status", "app"], ["whoami", "me"], ["log", "--since", "x"],
        ["log", "--since", "-1"], ["trim", "--keep", "1", "--before", "2"], ["completion"],
        ["completion", "tcsh"], ["completion", "bash", "zsh"], ["nonsense"], ["--nonsense"],
        ["unlock", "app/x.rb", "--reason", "x"], ["lock", "--", "--ttl"[:0]],
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_right_ends_with_2_in_words_and_in_json(
    repo: Repository, words: list[str]
) -> None:
    answer = repo.hold(*words)
    assert (answer.code, answer.out) == (2, "")
    assert re.match(r"holdfast: .+\n  -> .+\n\Z", answer.err)
    found = repo.hold("--json", *words)
    assert (found.code, found.err) == (2, "")
    assert set(found.error) >= {"code", "message", "hint"}


def test_options_and_paths_mix_in_any_order(repo: Repository) -> None:
    answer = repo.hold(
        "--json", "lock", "app/x.rb", "--reason=one", "app/y.rb", "--read", "lib", "--", "-odd"
    )
    grant = answer.json["grant"]
    assert grant["write_paths"] == ["app/x.rb", "app/y.rb", "-odd"]
    assert (grant["read_paths"], grant["reason"]) == (["lib/"], "one")


def test_a_reason_is_one_line_whatever_was_given(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--reason", "one\n\x1b[31mtwo\x07")
    assert repo.grants()[0]["reason"] == "one [31mtwo"


@pytest.mark.parametrize(
    "words",
    [
        ["it's $(here); x", "--holder", "a b"], ["-C", "app", "x.rb"], ["--", "-odd", "x.rb"],
        ["--read", "lib", "app/x.rb"], ["a", "b", "c", "d", "e", "--holder", "ann"],
    ],
)  # fmt: skip
def test_the_hint_can_be_pasted_into_a_shell(tmp_path: Path, words: list[str]) -> None:
    repo = Repository(tmp_path / "repo")  # both commands must be started by the same program
    hint = repo.hold("lock", *words).err.splitlines()[-1]
    command = hint.removeprefix("  release it: ")
    (repo.root / "bin").mkdir()
    script = repo.root / "bin/holdfast"
    script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", f"{command}; exit $?"], cwd=repo.root,
        env=environment(PATH=f"{repo.root}/bin:{os.environ['PATH']}"), check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert repo.grants() == []


def test_help_and_version_go_to_the_standard_output(repo: Repository) -> None:
    assert repo.hold("--version").out == f"holdfast {holdfast.__version__}\n"
    assert json.loads(repo.hold("--version", "--json").out) == {"version": holdfast.__version__}
    listed = repo.hold("--help")
    assert listed.code == 0
    for name in [*(one.name for one in COMMANDS), *(family.name for family in FAMILIES)]:
        assert re.search(rf"\n  {name}[ ,]", listed.out)
    for family in FAMILIES:
        listed = repo.hold(family.name, "--help")
        assert (listed.code, listed.err) == (0, "")
        assert listed.out.startswith(f"usage: holdfast {family.name} COMMAND")
        for command in family.commands:
            assert f"\n  {command.name} " in listed.out
    for command in everything():
        one = repo.hold(*command.name.split(), "--help")
        assert (one.code, one.err) == (0, "")
        assert one.out.startswith(f"usage: holdfast {command.name}")
        for option in command.options:
            assert f"--{option.name}" in one.out
