"""Whole clients with a lease for every file that they write, and without any hook.

Each is started by `holdfast run --lease`, and is unaware of it: the kernel refuses it the files
that another holder has locked, in whatever way the client writes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY, until
from helpers_sandbox import NEEDS_LANDLOCK

from .conftest import need
from .crew import Gateway
from .drive import MARK, marked, sweep
from .gated import Gated
from .leased import MAKERS, REFUSED, SHELL_WAYS, STALE, Maker, all_ways, ended, lease, wait_for
from .servers import Step
from .windows import Window, open_claude, open_codex

pytestmark = [LINUX_ONLY, *([NEEDS_LANDLOCK] if sys.platform == "linux" else [])]

CLIENTS = ("claude", "codex", "gemini", "opencode")

#: Some hours of work with git, which prints a word at its end if all of it succeeded.
WORK = """\
set -e
git config user.name Tess
git config user.email tess@example.org
mkdir -p lib/deep
echo one >lib/deep/one.txt
git add .
git commit -qm one
git mv lib/deep/one.txt lib/two.txt
git commit -qm two
git switch -qc side
sed -i s/old/side/ b.txt
git commit -qam side
git switch -q main
git merge -q --no-edit side
echo more >>b.txt
git stash -q
git stash pop -q
git fsck --strict
echo well done
"""

Make = Callable[[str], Maker]
OPEN: dict[str, Callable[..., Window]] = {"claude": open_claude, "codex-code": open_codex}


@pytest.fixture
def make(gated: Gated, tmp_path: Path) -> Iterator[Make]:
    """Clients by their names, each with a model of its own."""
    with ExitStack() as stack:
        stack.callback(sweep, tmp_path)

        def make(name: str) -> Maker:
            maker, server = MAKERS[name]
            need(maker.program)
            return maker(gated.root, stack.enter_context(server()))

        yield make


@pytest.fixture(params=CLIENTS)
def maker(request: pytest.FixtureRequest, make: Make) -> Maker:
    """Each client in turn."""
    return make(request.param)


@pytest.fixture(params=MAKERS)
def any_maker(request: pytest.FixtureRequest, make: Make) -> Maker:
    """Each client in turn, with each of its sets of tools."""
    return make(request.param)


class Job:
    """All ways of a client to write, each on a committed file, and `a.txt` for a shell, which was
    changed since."""

    def __init__(self, gated: Gated, maker: Maker) -> None:
        self.gated, self.ways = gated, maker.ways()
        self.steps: list[Step] = [call for way in self.ways for call in way.calls]
        self.steps.append(maker.shell(all_ways()))
        for way in self.ways:
            gated.write(way.file, way.text)
        gated.git("add", ".")
        gated.git("-c", "user.name=Tess", "-c", "user.email=t@example.org", "commit", "-qm", "more")
        gated.write("a.txt", "mine\n")
        self.files = ["a.txt", *(way.file for way in self.ways)]

    def state(self) -> dict[str, tuple[Any, ...] | None]:
        """The exact content of each file, and its other attributes that a writer could change."""
        return {file: state(self.gated.root / file) for file in self.files}

    def told(self, said: tuple[str, ...]) -> tuple[dict[str, str], str]:
        """The result of each way's last call, and the result of the shell's."""
        results = iter(said)
        last = {way.file: [next(results) for _ in way.calls][-1] for way in self.ways}
        return last, next(results)


def state(file: Path) -> tuple[Any, ...] | None:
    if not file.exists():
        return None
    found = os.stat(file)
    return file.read_bytes(), found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns


def changed(gated: Gated) -> set[str]:
    """The files that git reports as different from the last commit."""
    lines = gated.git("status", "--porcelain", "--untracked-files=all").splitlines()
    return {line[3:] for line in lines}


def test_without_a_lease_each_way_writes_and_no_client_asks_the_internet(
    gated: Gated, any_maker: Maker
) -> None:
    job = Job(gated, any_maker)
    before = job.state()
    url = any_maker.server.url
    proxy = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "https_proxy": url, "no_proxy": "127.0.0.1"}
    _, shell = job.told(any_maker.run("main", *job.steps, env=proxy))
    after = job.state()
    assert [file for file in job.files if after[file] == before[file]] == []
    assert ended(shell) == dict.fromkeys(SHELL_WAYS, 0)
    assert any_maker.server.outside == []


def test_what_another_holds_is_kept_to_the_byte_and_what_is_free_is_written(
    gated: Gated, any_maker: Maker
) -> None:
    job = Job(gated, any_maker)
    assert gated.hold("lock", *job.files, "--holder", "other").code == 0
    before, held = job.state(), gated.held()
    free = [any_maker.edit("b.txt", "old", "free"), any_maker.create("new.txt", "free")]
    said = any_maker.run("main", *job.steps, *free, before=lease("client"))
    assert job.state() == before
    tools, shell = job.told(said)
    assert {way: text for way, text in tools.items() if not REFUSED.search(text)} == {}
    assert [way for way, code in ended(shell).items() if code == 0] == []
    assert set(ended(shell)) == set(SHELL_WAYS)
    assert (gated.text("b.txt"), gated.text("new.txt")) == ("free\n", "free\n")
    written = {"a.txt", "b.txt", "c.txt", "new.txt"}
    halves = {"free.txt", "moved.txt"}  # from patches that move a file: the half that was free
    assert changed(gated) - halves == written, "no temporary file is left"
    assert gated.held() == held


def test_the_second_of_two_is_refused_until_the_first_has_ended(
    gated: Gated, maker: Maker, tmp_path: Path
) -> None:
    go = tmp_path / "go"

    def gone(_: object) -> str:
        # A client may leave the line in the background, and would then end too early.
        until(go.exists, "the first may go on", 240)
        return "Done."

    steps = maker.edit("a.txt", "old", "mine"), maker.shell(wait_for(go)), gone
    first = maker.start("first", *steps, before=lease("one"))
    maker.server.wait_for("first", 1)
    assert gated.held() == {"a.txt": "one"}
    before = state(gated.root / "a.txt")
    assert gated.text() == "mine\n"
    tries = maker.edit("a.txt", "mine", "theirs"), maker.create("a.txt", "theirs")
    more = maker.shell(all_ways()), maker.edit("b.txt", "old", "free")
    edited, written, shell, _ = maker.run("second", *tries, *more, before=lease("two"))
    assert REFUSED.search(edited)
    assert REFUSED.search(written)
    assert set(ended(shell)) == set(SHELL_WAYS)
    assert 0 not in ended(shell).values()
    assert state(gated.root / "a.txt") == before
    assert gated.text("b.txt") == "free\n"
    assert gated.held() == {"a.txt": "one"}, "the second client's leases have ended with it"
    go.touch()
    assert first.wait().code == 0
    assert gated.held() == {}
    maker.run("again", maker.edit("a.txt", "mine", "theirs"), before=lease("two"))
    assert gated.text() == "theirs\n"
    assert gated.held() == {}


def test_the_work_of_a_day_leases_what_was_written_and_no_other_name(
    gated: Gated, maker: Maker
) -> None:
    over = Gateway()
    steps = maker.edit("a.txt", "old", "new"), maker.create("n.txt", "new"), maker.shell(WORK)
    running = maker.start("main", *steps, over.then(), before=lease("one"))
    maker.server.wait_for("main", 3)
    told = maker.server.results("main")
    assert "well done" in told[2], told
    written = {"a.txt", "b.txt", "n.txt", "lib/two.txt"}
    assert written <= set(gated.held()) <= {*written, "lib/deep/one.txt"}
    over.open()
    assert running.wait().code == 0
    assert gated.held() == {}
    assert gated.text("b.txt") == "side\nmore\n"
    assert changed(gated) == {"b.txt"}
    subjects = gated.git("log", "--format=%s").split()
    assert subjects == ["side", "two", "one", "first"]


def test_what_a_client_has_committed_is_free_and_it_can_take_it_again(
    gated: Gated, maker: Maker
) -> None:
    for name, value in (("user.name", "Tess"), ("user.email", "tess@example.org")):
        gated.git("config", name, value)
    pause, over = Gateway(), Gateway()
    edits = maker.edit("a.txt", "old", "one"), maker.edit("b.txt", "old", "one")
    again = pause.then(maker.shell("sed -i s/two/three/ a.txt"))
    steps = *edits, maker.shell("git commit -qm one a.txt"), again, over.then()
    running = maker.start("main", *steps, before=lease("one", "--until-commit"))
    maker.server.wait_for("main", 3)
    until(lambda: gated.held() == {"b.txt": "one"}, "what was committed is free")
    write = ["sh", "-c", "echo two >a.txt"]
    assert gated.hold("run", "--lease", "--holder", "two", "--", *write).code == 0
    pause.open()
    maker.server.wait_for("main", 4)
    assert gated.text() == "three\n"
    assert gated.held() == {"a.txt": "one", "b.txt": "one"}
    over.open()
    assert running.wait().code == 0
    assert gated.held() == {}


def test_a_killed_client_holds_nothing_and_what_it_left_running_writes_nothing(
    gated: Gated, maker: Maker, tmp_path: Path
) -> None:
    go, begun = tmp_path / "go", tmp_path / "begun"
    line = f"touch {begun}; {wait_for(go)}; echo late 2>/dev/null >>a.txt"
    steps = maker.edit("a.txt", "old", "mine"), maker.shell(line)
    running = maker.start("main", *steps, before=lease("one"))
    until(begun.exists, "the line began", 60)
    assert gated.held() == {"a.txt": "one"}
    os.killpg(running.pid, signal.SIGKILL)
    until(lambda: gated.held() == {}, "the lease has ended")
    assert (
        gated.hold("run", "--lease", "--holder", "two", "--", "sh", "-c", "echo two >a.txt").code
        == 0
    )
    go.touch()
    until(lambda: not list(marked(f"{MARK}={tmp_path}".encode())), "nothing of it runs")
    assert gated.text() == "two\n"


def test_of_four_different_clients_at_once_one_gets_the_file(gated: Gated, make: Make) -> None:
    over = Gateway()
    started = {}
    for name in CLIENTS:
        maker = make(name)
        steps = maker.create("a.txt", name), over.then()
        started[name] = maker, maker.start(name, *steps, before=lease(name))
    for name, (maker, _) in started.items():
        maker.server.wait_for(name, 1)
    told = {name: "".join(maker.server.results(name)) for name, (maker, _) in started.items()}
    winners = [name for name, text in told.items() if not REFUSED.search(text)]
    assert len(winners) == 1, told
    assert gated.text() == f"{winners[0]}\n"
    assert gated.held() == {"a.txt": winners[0]}
    over.open()
    for _, running in started.values():
        assert running.wait().code == 0
    assert gated.text() == f"{winners[0]}\n"
    assert gated.held() == {}


def test_a_client_that_waits_overwrites_nothing_that_it_has_not_read(
    gated: Gated, maker: Maker
) -> None:
    over = Gateway()
    steps = maker.edit("a.txt", "old", "one"), over.then(maker.edit("a.txt", "one", "two"))
    first = maker.start("first", *steps, before=lease("one"))
    maker.server.wait_for("first", 1)
    late, again = maker.edit("a.txt", "one", "lost"), maker.edit("a.txt", "two", "three")
    second = maker.start("second", late, again, before=lease("two", "--wait", "120"))
    until(lambda: gated.look("status", "--json").json["waiting"], "the second waits in line", 60)
    assert gated.text() == "one\n"
    over.open()
    assert first.wait().code == 0
    assert second.wait().code == 0
    told = maker.server.results("second")
    assert STALE.search(told[0]), told
    assert gated.text() == "three\n", told
    assert gated.held() == {}


@pytest.mark.parametrize("name", ["claude", "codex-code"])
def test_in_a_terminal_a_person_reads_who_has_the_file_and_the_client_goes_on(
    gated: Gated, make: Make, name: str
) -> None:
    maker = make(name)
    assert gated.hold("lock", "a.txt", "--holder", "other").code == 0
    tries = maker.edit("a.txt", "old", "theirs"), maker.edit("b.txt", "old", "free")
    maker.server.scripts["main"] = [*tries, "Done."]
    home = gated.home()
    with OPEN[name](gated.root, maker.server, home, before=lease("client")) as window:
        window.enter("[[main]]")
        window.shows("a.txt has been locked for writing by other")
        until(lambda: gated.text("b.txt") == "free\n", "it wrote what is free")
        assert gated.text() == "old\n"
        assert gated.held() == {"a.txt": "other", "b.txt": "client"}
    until(lambda: gated.held() == {"a.txt": "other"}, "its lease has ended")


@pytest.mark.parametrize("has_hooks", [True, False])
def test_a_client_whose_hook_announces_its_edits_hears_of_no_stale_ones(
    gated: Gated, make: Make, has_hooks: bool
) -> None:
    """Another holder changes two files after the client has started. An edit of the current content
    is no stale write; a blind write of the whole file is."""
    if has_hooks:
        gated.init()
    maker, more = make("claude"), Gateway()
    steps = [
        maker.edit("b.txt", "old", "mine"),
        more.then(maker.edit("a.txt", "theirs", "mine")),
        maker.create("c.txt", "blind"),
    ]
    gated.write("c.txt", "old\n")
    running = maker.start("main", *steps, before=lease("one"))
    maker.server.wait_for("main", 1)
    line = "echo theirs >a.txt; echo theirs >c.txt"
    done = gated.hold("run", "--lease", "--holder", "two", "--", "sh", "-c", line)
    assert done.code == 0, done
    more.open()
    assert running.wait().code == 0
    _, edited, blind = maker.server.results("main")
    assert bool(STALE.search(edited)) is not has_hooks, edited
    assert gated.text() == ("mine\n" if has_hooks else "theirs\n")
    assert STALE.search(blind), blind
    assert gated.text("c.txt") == "theirs\n"
