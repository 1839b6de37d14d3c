"""The gate with real Codexes: behaviour that is theirs alone."""

from __future__ import annotations

from helpers_processes import LINUX_ONLY

from . import drive
from .crew import BLOCKED, REFUSED, Codexes, Gateway, change, insist, is_refusal
from .gated import AT_ONCE, HELD, Gated
from .servers import patch

pytestmark = LINUX_ONLY


def test_a_refused_patch_leaves_all_its_files_as_they_are_and_the_model_reads_whose_they_are(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    owner = codexes.owner()
    other = codexes.run(
        "other",
        patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs")),
        patch("*** Delete File: a.txt"),
        patch("*** Update File: b.txt\n*** Move to: a.txt\n@@\n-old\n+theirs"),
    )
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "old\n"
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in other.results[0]
    assert len(other.results) == 3
    for said in other.results:
        assert is_refusal(said)
        assert owner.name in said
    owner.ends()
    assert gated.held() == {}


def test_a_free_file_of_a_refused_patch_can_be_patched_alone(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    owner = codexes.owner()
    other = codexes.run(
        "other",
        patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs")),
        patch(change("b.txt", "old", "free")),
    )
    refused, free = other.results
    assert is_refusal(refused)
    assert not is_refusal(free), free
    assert gated.text("b.txt") == "free\n"
    owner.ends()


def test_a_free_file_of_a_refused_patch_is_free_for_a_third_agent(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    owner = codexes.owner()
    both = patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs"))
    other = codexes.owner(both, script="other")
    assert gated.held() == {"a.txt": owner.name}
    third = codexes.run("third", patch(change("b.txt", "old", "free")))
    assert gated.text("b.txt") == "free\n", third.results
    other.ends()
    owner.ends()


def test_a_patch_that_is_typed_into_the_shell_is_refused_like_any_other(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    owner = codexes.owner()
    text = patch(change("a.txt", "mine", "theirs")).input
    other = codexes.run("other", codexes.shell(f"apply_patch <<'EOF'\n{text}EOF\n"))
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in other.results[0]
    assert gated.text() == "mine\n"
    owner.ends()


def test_the_gate_holds_with_hooks_that_were_trusted_in_codex_itself(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    owner = codexes.owner()
    home = gated.home()
    drive.trust_codex_hooks(gated.root, home)
    other = codexes.run("other", codexes.edit("a.txt", "mine", "theirs"), home=home, vetted=False)
    assert gated.text() == "mine\n"
    assert owner.name in other.results[0]
    owner.ends()


def test_a_retry_that_fails_refuses_every_edit_until_holdfast_resume(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**HELD)
    owner = codexes.owner()
    resumed = Gateway()
    other = codexes.start(
        "other",
        *insist(codexes.edit("a.txt", "mine", "theirs")),
        codexes.edit("b.txt", "old", "theirs"),
        codexes.shell("echo theirs > c.txt"),
        resumed.then(codexes.edit("a.txt", "mine", "theirs")),
    )
    other.has_done(4)
    (report,) = gated.blockers()
    assert (report["agent"], report["owner"]) == (other.name, owner.name)
    first, *blocked = other.results
    assert BLOCKED not in first
    assert len(blocked) == 3
    for said in blocked:
        assert BLOCKED in said
        assert f"owner           {owner.name}" in said
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "old\n"
    assert not (gated.root / "c.txt").exists()
    owner.ends()
    answer = gated.by_a_person("resume")
    assert f"{other.name} may continue" in answer.out, answer
    assert gated.blockers() == []
    resumed.open()
    other.ends()
    assert gated.text() == "theirs\n"


def test_one_who_was_killed_while_it_was_blocked_goes_on_after_a_new_prompt(
    gated: Gated, codexes: Codexes
) -> None:
    gated.init(**HELD)
    owner = codexes.owner()
    home = gated.home()
    change = codexes.edit("a.txt", "mine", "theirs")
    blocked = codexes.owner(*insist(change), script="other", home=home)
    session = blocked.session
    blocked.running.kill()
    assert [report["agent"] for report in gated.blockers()] == [blocked.name]
    owner.ends()
    codexes.run("on", codexes.edit("a.txt", "mine", "theirs"), home=home, resume=session)
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []
