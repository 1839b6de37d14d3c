"""Commands of a real Codex that are leased inside of Codex's own sandbox (`workspace-write`)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY
from helpers_sandbox import NEEDS_LANDLOCK

from .conftest import need
from .crew import Codexes
from .drive import OWN_SANDBOX, sweep
from .gated import AT_ONCE, Gated
from .servers import OpenAIServer
from .test_shell_table import project

pytestmark = [LINUX_ONLY, *([NEEDS_LANDLOCK] if sys.platform == "linux" else [])]

#: Commands may write to folders for temporary files unless an option forbids it; then Codex
#: leaves files there that protect possible settings.
ALONE = [
    word
    for name in ("exclude_slash_tmp", "exclude_tmpdir_env_var")
    for word in ("-c", f"sandbox_workspace_write.{name}=true")
]


@pytest.fixture
def codexes() -> Iterator[Codexes]:
    """Codexes in a repository that does not lie in a folder for temporary files of Codex."""
    need("codex")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-codex-", dir="/var/tmp"))
    try:
        with OpenAIServer() as server:
            yield Codexes(Gated(project(folder / "repo")).init(**AT_ONCE), server)
            sweep(folder)
    finally:
        shutil.rmtree(folder)


def test_a_program_is_leased_and_cannot_write_what_another_holds(codexes: Codexes) -> None:
    gated = codexes.gated
    owner = codexes.owner()
    lines = (
        "echo fine >b.txt; mkdir -p new; python3 -c \"open('new/made.txt', 'w').write('x')\"",
        "python3 x.py",
        "echo outside >../outside.txt",
    )
    other = codexes.owner(
        *map(codexes.shell, lines), script="other", sandbox=OWN_SANDBOX, options=ALONE
    )
    free, refused, outside = other.results
    assert gated.text("b.txt") == "fine\n", free
    names = {"a.txt": owner.name, "b.txt": other.name, "new/made.txt": other.name}
    assert gated.held() == names
    assert "Refused: a.txt" in refused
    assert owner.name in refused
    assert gated.text() == "mine\n"
    assert "Read-only file system" in outside, "the command is in Codex's own sandbox"
    assert gated.happened("damage") == []
    other.ends()
    assert gated.held() == {"a.txt": owner.name}
    owner.ends()
