"""The limits in docs/leases-at-the-write.md: operations that do not work, or are not covered.

Each case also shows that the same works without `run --lease`, or that the page claims nothing.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_broker import NEEDS_BROKER, Site, ended, until
from helpers_cli import COMMAND, environment

pytestmark = NEEDS_BROKER

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/leases-at-the-write.md").read_text(encoding="utf-8")

_BIND = """
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).bind(path)
        print('done')
    except OSError as error:
        print(type(error).__name__)
"""
_CALLS = """
import ctypes, errno, sys
library = ctypes.CDLL(None, use_errno=True)
for number in map(int, sys.argv[1:]):
    ctypes.set_errno(0)
    done = library.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
    print(errno.errorcode.get(ctypes.get_errno(), 'done') if done < 0 else 'done')
"""
IO_URING, BY_HANDLE, USERFAULTFD, FILE_SETATTR = (425, 426, 427), 304, 323, 469


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def python(site: Site, text: str, *words: object, leased: bool) -> list[str]:
    around = [*COMMAND, "run", "--lease", "--"] if leased else []
    done = subprocess.run(
        [*around, sys.executable, "-c", text, *map(str, words)], cwd=site.root, env=environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout.split()


# Refused


def test_no_socket_is_bound_in_the_repository_or_right_above_it(site: Site) -> None:
    # Relative paths, because absolute ones may be too long for a socket.
    places = ("s", "../s", "../flags/s")
    assert python(site, _BIND, *places, leased=True) == ["PermissionError"] * 2 + ["done"]
    for place in places:
        (site.root / place).unlink(missing_ok=True)
    assert python(site, _BIND, *places, leased=False) == ["done"] * 3


def test_ways_around_fail_as_on_a_kernel_without_them(site: Site) -> None:
    said = python(site, _CALLS, *IO_URING, FILE_SETATTR, leased=True)
    assert said == ["ENOSYS"] * 4
    assert python(site, _CALLS, BY_HANDLE, USERFAULTFD, leased=True) == ["EPERM"] * 2


def test_nothing_below_gains_privileges_or_mounts(site: Site) -> None:
    done = site.lease("grep NoNewPrivs /proc/self/status; mount --bind . /mnt || echo no mount")
    assert done.stdout.split() == ["NoNewPrivs:", "1", "no", "mount"]


def test_a_file_of_an_inner_ledger_is_refused(site: Site) -> None:
    inner = site.root / "inner"
    (inner / ".holdfast").mkdir(parents=True)
    (inner / "i.txt").write_text("kept\n")
    done = site.lease("echo x >inner/i.txt")
    assert done.returncode != 0
    assert "belongs to the ledger of" in done.stderr
    assert (inner / "i.txt").read_text() == "kept\n"


def test_the_ledger_is_read_only_inside(site: Site) -> None:
    here = f"{sys.executable} -m holdfast"
    done = site.lease(f"{here} status; {here} check a.txt; {here} lock --json b.txt")
    assert "nothing is locked" in done.stdout
    assert "free" in done.stdout
    assert "E_STORE_READONLY" in done.stdout


# Not covered


def test_a_descriptor_that_was_open_before_is_passed_on(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    with (site.root / "a.txt").open("a") as file:
        line = [*COMMAND, "run", "--lease", "--", "echo", "through"]
        subprocess.run(line, cwd=site.root, env=environment(), stdout=file, check=True)
    assert site.text("a.txt") == "alpha\nthrough\n"


def test_a_process_outside_writes_what_it_is_asked_to(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asks = f"import socket; socket.create_connection(('127.0.0.1', {port})).send(b'asked')"
        process = site.begin(f'{sys.executable} -c "{asks}"')
        line, _ = server.accept()
        with line:
            (site.root / "a.txt").write_bytes(line.recv(100))
        assert ended(process)[0] == 0
    assert site.text("a.txt") == "asked"


def test_a_descriptor_that_is_sent_outside_outlives_the_lease(site: Site) -> None:
    path = str(site.flags / "line")
    sends = (
        "import socket; line = socket.socket(socket.AF_UNIX); "
        f"line.connect({path!r}); file = open('a.txt', 'w'); "
        "socket.send_fds(line, [b'x'], [file.fileno()])"
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        process = site.begin(f'{sys.executable} -c "{sends}"')
        line, _ = server.accept()
        with line:
            fd = socket.recv_fds(line, 1, 1)[1][0]
        assert ended(process)[0] == 0
    until(lambda: site.held() == [], "the lease to end")
    os.write(fd, b"late")
    os.close(fd)
    assert site.text("a.txt") == "late"


def test_a_name_that_cannot_be_printed_has_no_lease_and_no_holder(site: Site) -> None:
    name = os.fsdecode(b"n\xff")
    assert site.holdfast("lock", "--holder", "other", name).returncode == 2
    held = f"touch \"$(printf 'n\\377')\" {site.flag('made')}; {site.wait_for('seen')}"
    process = site.begin(held)
    site.until_flag("made")
    assert site.held() == []
    site.raise_flag("seen")
    assert ended(process)[0] == 0
    assert (site.root / name).exists()


@pytest.mark.parametrize("place", ["inside", "../outside"])
def test_a_worktree_made_meanwhile_is_leased_only_inside(site: Site, place: str) -> None:
    process = site.begin(
        f"git worktree add -q -b made {place} && echo x >{place}/a.txt && "
        f"touch {site.flag('made')}; {site.wait_for('seen')}"
    )
    site.until_flag("made")
    assert ("inside/a.txt" in site.held()) == (place == "inside")
    site.raise_flag("seen")
    assert ended(process)[0] == 0


def test_a_worktree_that_was_there_before_is_leased_wherever_it_is(site: Site) -> None:
    site.git("worktree", "add", "-q", "-b", "made", "../outside")
    site.holdfast("lock", "--holder", "other", "../outside/a.txt")
    assert site.lease("echo x >../outside/a.txt").returncode != 0
    assert site.text("../outside/a.txt") == "alpha\n"


def test_a_held_file_stays_when_git_switches_and_git_says_so(site: Site) -> None:
    site.git("switch", "-qc", "side")
    for name in ("a.txt", "b.txt"):
        (site.root / name).write_text("side\n")
    site.git("commit", "-qam", "side")
    site.git("switch", "-q", "-")
    site.holdfast("lock", "--holder", "other", "a.txt")
    done = site.lease("git switch side")
    assert done.returncode == 0
    assert "unable to unlink old 'a.txt': Permission denied" in done.stderr
    assert (site.text("a.txt"), site.text("b.txt")) == ("alpha\n", "side\n")
    assert site.git("status", "--porcelain", "-uno") == " M a.txt\n"


# The guide


def test_every_row_of_the_guide_names_tests_that_exist() -> None:
    rows = [line for line in GUIDE.splitlines() if re.search(r"\| `tests/", line)]
    assert len(rows) > 15
    for row in rows:
        for name in re.findall(r"`(tests/[\w/.]+)`", row):
            assert (ROOT / name).is_file(), row


def test_the_corpus_has_as_many_ways_as_the_guide_says() -> None:
    import lease_corpus

    count = sum(map(len, lease_corpus.BATCHES.values())) + len(lease_corpus.ALONE)
    [said] = re.findall(r"more than (\d+) ways", GUIDE)
    assert count > int(said)
