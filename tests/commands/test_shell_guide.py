"""What docs/shell.md shows of a refused command is what its agent reads."""

from __future__ import annotations

import re
from pathlib import Path

from helpers_broker import NEEDS_BROKER
from helpers_commands import ClaudeLike
from helpers_guides import is_shown, transcripts

pytestmark = NEEDS_BROKER


def flowing(text: str) -> str:
    """The same without line breaks, and without the time of the retry, which may be minutes off."""
    return re.sub(r"\s+", " ", text).strip()


def test_a_refused_command_reads_what_is_shown(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    (shown,) = transcripts("docs/shell.md")
    assert shown.output is not None
    (root / "generate.py").write_text("open('app/x.py', 'w')\n")
    ann.edit("app/x.py")
    code, said = bob.run(shown.command)
    assert code == 1
    assert is_shown(flowing(said), flowing(shown.output)), said
