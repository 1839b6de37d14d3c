"""The gate between one Claude Code and one Codex in the same repository."""

from __future__ import annotations

from helpers_processes import LINUX_ONLY

from .crew import Claudes, Codexes, meet_on_one_file
from .gated import AT_ONCE, HELD, Gated

pytestmark = LINUX_ONLY


def test_codex_is_refused_what_claude_has_and_the_other_way_round(
    gated: Gated, claudes: Claudes, codexes: Codexes
) -> None:
    gated.init(**AT_ONCE)
    codex = codexes.owner()
    claude = claudes.owner(
        claudes.edit("b.txt", "old", "claude's"), claudes.edit("a.txt", "mine", "claude's")
    )
    assert f"a.txt has been locked for writing by {codex.name}" in claude.results[1]
    other = codexes.run("other", codexes.edit("b.txt", "claude's", "codex's"))
    assert f"b.txt has been locked for writing by {claude.name}" in other.results[0]
    assert (gated.text("a.txt"), gated.text("b.txt")) == ("mine\n", "claude's\n")
    claude.ends()
    codex.ends()
    # and now both files are free for either agent
    claudes.run("after", claudes.edit("a.txt", "mine", "both"))
    codexes.run("after", codexes.edit("b.txt", "claude's", "both"))
    assert (gated.text("a.txt"), gated.text("b.txt")) == ("both\n", "both\n")


def test_one_claude_and_one_codex_at_once_on_one_file_make_exactly_one_edit_each_round(
    gated: Gated, claudes: Claudes, codexes: Codexes
) -> None:
    gated.init(**HELD)
    meet_on_one_file(claudes, codexes)
