"""A slot's launcher: agents in a sandbox, of which nothing is left when they have ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import until
from helpers_launcher import Bench, before_launchers, is_running, pid_in
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Again
from holdfast.work.launching.slots import AgentError, Ended, Launcher, Launchers

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="launchers need Linux: subreaper, pidfd, Landlock"
)


@pytest.fixture
def bench(repository: Path) -> Iterator[Bench]:
    made = Bench(repository)
    yield made
    made.close()


def test_an_agent_ends_with_its_code_and_its_output_is_kept(bench: Bench) -> None:
    ended = bench.sh("echo out; echo err >&2; cat; exit 3", stdin="the prompt", write=None)
    assert (ended.code, ended.why, ended.bytes) == (3, "", 18)
    assert bench.output.read_text() == "out\nerr\nthe prompt"


def test_an_agent_is_told_its_grant_its_token_and_its_name(bench: Bench) -> None:
    bench.sh("echo $HOLDFAST_GRANT $HOLDFAST_TOKEN $HOLDFAST_HOLDER", write=None)
    item = bench.item
    assert bench.output.read_text().split() == [item.grant_id, str(item.token), item.id]


@NEEDS_LANDLOCK
def test_it_can_write_what_it_holds_and_nothing_else_whatever_tool_it_uses(bench: Bench) -> None:
    script = f"""
        echo new > app/x.rb && echo made > new/made.rb || echo held refused
        echo x > lib/y.rb || echo shell refused
        {sys.executable} -c 'open("lib/y.rb", "w")' 2> /dev/null || echo python refused
        cp app/x.rb lib/y.rb 2> /dev/null || echo cp refused
        mv app/x.rb lib/z.rb 2> /dev/null || echo mv refused
        rm lib/y.rb 2> /dev/null || echo rm refused
        echo x > "$TMPDIR/scratch" && echo scratch works
    """
    assert bench.sh(script).code == 0
    said = bench.output.read_text()
    for tool in ("shell", "python", "cp", "mv", "rm"):
        assert f"{tool} refused" in said
    assert "scratch works" in said
    assert (bench.root / "app/x.rb").read_text() == "new\n"
    assert (bench.root / "new/made.rb").read_text() == "made\n"
    assert (bench.root / "lib/y.rb").read_text() == "old\n"


def test_an_agent_that_never_ends_is_ended(bench: Bench) -> None:
    ended = bench.sh("sleep 1000", timeout_seconds=0.2, write=None)
    assert (ended.code, ended.why) == (-signal.SIGTERM, "timeout")


def test_one_that_does_not_hear_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    runner = threading.Thread(target=lambda: results.append(bench.sh(script, write=None)))
    results: list[Ended] = []
    runner.start()
    until(lambda: bench.output.exists() and "up" in bench.output.read_text(), "it is up")
    bench.launcher.stop("called off")
    runner.join(60)
    assert (results[0].code, results[0].why) == (-signal.SIGKILL, "called off")


def test_one_that_is_stopped_before_it_begins_does_not_begin(bench: Bench) -> None:
    bench.launcher.stop("called off")
    ended = bench.sh("echo ran", write=None)
    assert (ended.why, bench.output.exists()) == ("called off", False)
    bench.launcher.holder(bench.item)  # as when its locks are taken again
    assert bench.shell("echo ran", write=None) == "ran\n"


def test_processes_that_fork_away_are_gone_before_the_agent_has_ended(
    bench: Bench, tmp_path: Path
) -> None:
    """A new session, forked twice: a child of the launcher alone."""
    file = tmp_path / "pid"
    script = (
        f"setsid sh -c 'setsid sleep 1000 & echo $! > {file}' & until [ -s {file} ]; do :; done"
    )
    assert bench.sh(script, write=None).code == 0
    assert not is_running(pid_in(file))


def test_one_that_talks_without_end_is_kept_short(bench: Bench) -> None:
    ended = bench.sh("yes | head -c 100000000", output_bytes_max=10_000, write=None)
    assert (ended.code, ended.bytes) == (0, 100_000_000)
    assert bench.output.stat().st_size == 10_000


def test_a_command_that_is_not_there_is_an_error_with_its_name(bench: Bench) -> None:
    with pytest.raises(AgentError) as error:
        bench.launcher.run(
            bench.item, ["/no/such/agent"], folder=str(bench.root), output=str(bench.output),
            environment={}, write=None,
        )  # fmt: skip
    assert error.value.fields["command"] == "/no/such/agent"
    assert bench.sh("exit 0", write=None).code == 0  # and the launcher still works


def test_when_a_launcher_is_killed_its_agent_dies_and_the_item_can_be_tried_again(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    failed: list[BaseException] = []

    def run() -> None:
        try:
            bench.sh(f"echo $$ > {file}; exec sleep 1000", write=None)
        except BaseException as error:
            failed.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    agent = pid_in(file)
    os.kill(bench.pid, signal.SIGKILL)
    runner.join(60)
    assert isinstance(failed[0], Again)
    until(lambda: not is_running(agent), "the agent is gone")
    until(lambda: bench.desk.is_abandoned(bench.item), "its locks are free")
    assert not bench.launcher.is_well


def test_locks_are_not_free_while_an_orphan_of_a_killed_launcher_still_runs(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    script = f"setsid sleep 1000 & echo $! > {file}; exec sleep 1000"
    runner = threading.Thread(target=lambda: _ignoring(lambda: bench.sh(script, write=None)))
    runner.start()
    orphan = pid_in(file)
    os.kill(bench.pid, signal.SIGKILL)
    runner.join(60)
    assert is_running(orphan)
    assert not bench.desk.is_abandoned(bench.item)
    os.kill(orphan, signal.SIGKILL)
    until(lambda: bench.desk.is_abandoned(bench.item), "its locks are free")


def _ignoring(function: object) -> None:
    try:
        function()  # type: ignore[operator]
    except Again:
        pass


KILLED = """
import os, sys, threading
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.launching.slots import Launchers
root, file = sys.argv[1:]
manager = LockManager.open(root)
launcher = Launchers(manager, 1).lend()
desk = ItemStore(manager)
item = desk.enqueue("a", "apply", LockRequest.of((), ["app/x.rb"]))
item, grant = desk.claim(item, launcher.holder(item))
launcher.run(item, ["/bin/sh", "-c", f"setsid sleep 1000 & echo $! > {file}; exec sleep 1000"],
             folder=root, output=f"{root}/.holdfast/out", environment=dict(os.environ), write=None)
"""


def test_when_the_dispatcher_is_killed_everything_that_it_started_goes_with_it(
    repository: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    dispatcher = subprocess.Popen([sys.executable, "-c", KILLED, str(repository), str(file)])
    agent = pid_in(file)
    dispatcher.kill()
    dispatcher.wait()
    until(lambda: not is_running(agent), "what its agent had started is gone")
    with LockManager.open(repository) as manager:
        desk = ItemStore(manager)
        (item,) = desk.items()
        until(lambda: desk.is_abandoned(item), "its locks are free")


def test_a_launcher_that_is_well_is_used_again(bench: Bench) -> None:
    bench.sh("exit 0", write=None)
    bench.desk.end(bench.item)
    first = bench.launcher
    first.leave()
    bench.launcher = bench.pool.lend()
    assert bench.launcher is first


def test_launchers_are_there_before_they_are_needed(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        pool = Launchers(manager, spare=2)
        pool.warm(1)
        assert len(pool._idle) == 1
        pool.warm(4)
        assert [launcher.is_well for launcher in pool._idle] == [True, True]
        lent: list[Launcher] = [pool.lend() for _ in range(3)]
        for launcher in lent:
            launcher.leave()
        assert len(pool._idle) == 2
        pool.close()


# The runner_folders that a launcher keeps from one agent to the next


@NEEDS_LANDLOCK
def test_an_agent_finds_nothing_of_the_one_before(bench: Bench) -> None:
    script = """
        echo "$TMPDIR"; echo "$HOLDFAST_SOCKET"; ls -A "$TMPDIR"; stat -c %a "$TMPDIR"
        mkdir -p "$TMPDIR/a/b/c"; echo secret > "$TMPDIR/a/b/file"; ln -s / "$TMPDIR/a/link"
        mkfifo "$TMPDIR/fifo"; chmod 0 "$TMPDIR/a/b/c"; chmod 500 "$TMPDIR/a/b" "$TMPDIR"
    """
    first = bench.shell(script)
    assert first.splitlines()[2:] == ["700"]
    assert bench.shell(script) == first, "the same folder and socket, and as empty as before"


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    "resists", ["scratch_folder.ScratchFolder.empty", "ledger_socket.LedgerSocket._turn_away"]
)
def test_what_cannot_be_cleared_is_left_for_new_quarters(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resists: str
) -> None:
    module = resists.partition(".")[0]
    code = f"from holdfast.gate.sandbox.runner import {module}; {resists} = lambda self: False"
    before_launchers(code, tmp_path, monkeypatch)
    bench = Bench(repository)
    places = [bench.shell('echo "$TMPDIR"').strip() for _ in range(3)]
    assert len(set(places)) == 3
    bench.close()
    for place in places:
        assert not os.path.exists(os.path.dirname(place)), "in the end all of them are removed"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("gone", ["", "tmp", "socket"])
def test_quarters_that_somebody_tidied_away_are_made_anew(bench: Bench, gone: str) -> None:
    place = Path(bench.shell('echo "$TMPDIR"').strip())
    bench.shell("true", write=None)  # which it does not start before that is empty
    if gone == "socket":
        (place.parent / gone).unlink()
    else:
        shutil.rmtree(place.parent / gone)
    another = bench.shell('echo "$TMPDIR"; echo x > "$TMPDIR/x"; test -S "$HOLDFAST_SOCKET"')
    assert another.strip() != str(place)
    assert not place.parent.exists()


@NEEDS_LANDLOCK
def test_a_file_that_was_made_and_removed_is_not_removed_again(bench: Bench) -> None:
    """Another runner may make the same file for its agent, and get the same inode for it."""
    place = Path(bench.shell('ls new; echo "$TMPDIR"').split()[1])
    assert not (bench.root / "new").exists()
    bench.shell("true", write=None)
    assert json.loads((place.parent / "owner").read_text())["made"] == []


ASKS = """
import os
from holdfast.gate.sandbox import runner_client
tasks = f"/proc/{os.getppid()}/task"
before = len(os.listdir(tasks))
said = runner_client.verify(os.environ["HOLDFAST_GRANT"], token=int(os.environ["HOLDFAST_TOKEN"]))
print(before, said.allowed, len(os.listdir(tasks)))
"""


@NEEDS_LANDLOCK
def test_a_thread_answers_when_a_query_comes_and_not_earlier(bench: Bench) -> None:
    assert bench.python(ASKS) == bench.python(ASKS) == "1 True 2\n"


LEAVES_A_QUESTION = """
import os, socket, time
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["HOLDFAST_SOCKET"])
line.sendall(b'{"ask": "gap", "grant": "%s", "token": %s, "path": "lib/y.rb", "client": "x"' % (
    os.environ["HOLDFAST_GRANT"].encode(), os.environ["HOLDFAST_TOKEN"].encode()))
while len(os.listdir(f"/proc/{os.getppid()}/task")) == 1:
    time.sleep(0.001)
print("asked")
"""


@NEEDS_LANDLOCK
def test_an_agent_that_ends_within_a_question_leaves_the_next_one_its_own(bench: Bench) -> None:
    assert bench.python(LEAVES_A_QUESTION) == "asked\n"
    assert bench.python(ASKS) == "1 True 2\n"
    assert bench.gaps == []
