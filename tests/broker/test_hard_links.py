"""A file with several names: below `run --lease` no name bypasses a lease."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from helpers_cli import Repository
from helpers_processes import LINUX_ONLY, until
from helpers_sandbox import NEEDS_LANDLOCK

pytestmark = [LINUX_ONLY, NEEDS_LANDLOCK]

FILE = "app/x.rb"


class Room(Repository):
    """A repository in which a tool runs below a broker while another holder locks files."""

    @property
    def outside(self) -> Path:
        return self.root.parent

    def tool(self, script: str) -> int:
        """The exit code of a script for sh."""
        return self.hold("run", "--lease", "--holder", "tool", "--", "sh", "-c", script).code

    def lock(self, path: str = FILE) -> None:
        answer = self.hold("lock", "--holder", "other", path)
        assert answer.code == 0, answer

    def text(self, path: str = FILE) -> str:
        return (self.root / path).read_text()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path / "repo")
    subprocess.run(["git", "add", "-A"], cwd=made.root, check=True)
    return made


@pytest.mark.parametrize(
    "link",
    ["ln app/x.rb other.rb", "cp -l app/x.rb other.rb", "ln app/x.rb tmp && mv tmp other.rb"],
)
def test_a_second_name_is_leased_with_the_first(room: Room, link: str) -> None:
    script = f"{link} && touch ../linked && until [ -e ../go ]; do sleep 0.01; done; echo >other.rb"
    words = ("run", "--lease", "--holder", "tool", "--", "sh", "-c", script)
    with room.start(*words) as process:
        linked = room.outside / "linked"
        until(lambda: linked.exists() or process.poll() is not None, "the file is linked")
        answer = room.hold("lock", "--holder", "other", FILE)
        (room.outside / "go").touch()
        process.communicate()
    assert process.returncode == 0
    assert answer.code != 0, "the tool can write it"
    assert "tool" in answer.out + answer.err


def test_a_second_name_that_was_there_before_is_known(room: Room) -> None:
    os.link(room.root / FILE, room.root / "other.rb")
    room.lock()
    assert room.tool("echo new >other.rb") != 0
    assert room.text() == "old\n"


#: Each would give a file of the repository a name outside, or the other way round.
ACROSS = {
    "out": "ln app/x.rb ../out",
    "in": "ln ../in in.rb",
    "out by a rename": "ln app/x.rb b && rename b ../out",
    "in by a rename": "ln ../in ../out && rename ../out in.rb",
    "out in a folder": "mkdir d && ln app/x.rb d/x && rename d ../out",
    "in in a folder": "mkdir ../d && ln ../in ../d/x && rename ../d in.rb",
}
#: `mv` copies where it cannot rename.
RENAME = 'rename() { perl -e \'rename $ARGV[0], $ARGV[1] or die "$!\\n"\' "$1" "$2"; }\n'


@pytest.mark.parametrize("script", ACROSS.values(), ids=ACROSS)
def test_no_file_has_names_inside_and_outside(room: Room, script: str) -> None:
    (room.outside / "in").write_text("in\n")
    assert room.tool(f"{RENAME}{script}") != 0
    assert not (room.outside / "out").exists() or (room.outside / "out").samefile(
        room.outside / "in"
    )
    assert not (room.root / "in.rb").exists()


def test_the_same_links_are_made_without_us(room: Room) -> None:
    # Otherwise the test above would prove nothing.
    for name, script in ACROSS.items():
        (room.outside / "in").write_text("in\n")
        subprocess.run(["sh", "-c", f"{RENAME}{script}"], cwd=room.root, check=True)
        subprocess.run("rm -rf b d in.rb ../out ../d", cwd=room.root, shell=True, check=True)
        assert room.text() == "old\n", name


def test_mv_copies_a_file_that_has_another_name(room: Room) -> None:
    assert room.tool("ln app/x.rb b && mv b ../out") == 0
    assert not (room.root / "b").exists()
    assert (room.outside / "out").read_text() == "old\n"
    room.lock()
    assert room.tool("echo new >../out") == 0
    assert room.text() == "old\n"


def test_a_file_with_one_name_is_moved_out_and_in(room: Room) -> None:
    before = (room.root / FILE).stat().st_ino
    assert room.tool(f"{RENAME}rename app/x.rb ../out && rename ../out app/x.rb") == 0
    assert (room.root / FILE).stat().st_ino == before


def test_git_clones_in_and_out(room: Room) -> None:
    assert room.tool("git commit -qm x && git clone -q . ../out && git clone -q ../out in") == 0
    assert (room.root / "in" / FILE).read_text() == "old\n"
