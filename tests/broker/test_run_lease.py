"""run --lease: any program, nothing declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers_broker import NEEDS_BROKER, Site, broker_of, ended, kill, until
from helpers_sandbox import OLD_KERNEL

pytestmark = NEEDS_BROKER


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# Free, own and held files


def test_a_free_file_is_leased_at_the_write_and_written(site: Site) -> None:
    held = f"echo new >a.txt; touch {site.flag('written')}; {site.wait_for('seen')}"
    process = site.begin(held)
    site.until_flag("written")
    assert site.held() == ["a.txt"]
    site.raise_flag("seen")
    assert ended(process)[0] == 0
    assert site.text("a.txt") == "new\n"
    assert site.held() == []


def test_reading_takes_no_lease(site: Site) -> None:
    site.lease("cat a.txt b.txt >/dev/null; git status; ls")
    assert "a.txt" not in site.holdfast("log").stdout


def test_each_file_has_a_grant_of_its_own(site: Site) -> None:
    process = site.begin(
        f"echo x >a.txt; echo x >b.txt; touch {site.flag('written')}; {site.wait_for('seen')}"
    )
    site.until_flag("written")
    assert sorted(grant["write_paths"] for grant in site.grants()) == [["a.txt"], ["b.txt"]]
    site.raise_flag("seen")
    ended(process)


def test_a_leased_file_is_written_again_without_reading_the_ledger(site: Site) -> None:
    site.lease("for i in 1 2 3 4 5; do echo $i >a.txt; done")
    log = site.holdfast("log").stdout
    assert log.count("locked a.txt") == 1
    assert log.count("released a.txt") == 1


def test_a_file_that_another_holder_has_is_refused_with_the_reason(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    done = site.lease("echo new >a.txt")
    assert done.returncode != 0
    assert site.text("a.txt") == "alpha\n"
    assert "a.txt has been locked for writing by other for" in done.stderr
    assert "its lease ends in" in done.stderr
    assert "refused" in site.holdfast("log").stdout


def test_whoami_inside_repeats_the_refusals(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    done = site.python(
        "import subprocess, sys\n"
        "try: open('a.txt', 'w')\n"
        "except PermissionError: pass\n"
        "print(subprocess.run([sys.executable, '-m', 'holdfast', 'whoami'], text=True,"
        " capture_output=True).stdout)\n"
    )
    assert "refused: a.txt has been locked for writing by other" in done.stdout


def test_two_commands_exclude_each_other(site: Site) -> None:
    first = site.begin(f"echo 1 >a.txt; touch {site.flag('one')}; {site.wait_for('end')}")
    site.until_flag("one")
    second = site.lease("echo 2 >a.txt || sed -i s/1/2/ a.txt || mv b.txt a.txt || rm a.txt")
    assert second.returncode != 0
    assert site.text("a.txt") == "1\n"
    site.raise_flag("end")
    ended(first)


@pytest.mark.parametrize("umask", ["000", "027", "077"])
def test_new_files_have_the_umask_of_the_caller(site: Site, umask: str) -> None:
    site.lease(f"umask {umask}; echo x >new.txt; mkdir folder")
    assert (site.root / "new.txt").stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)
    assert (site.root / "folder").stat().st_mode & 0o777 == 0o777 & ~int(umask, 8)


def test_the_exit_code_is_the_command_s(site: Site) -> None:
    assert site.lease("exit 7").returncode == 7
    assert site.lease("kill -TERM $$").returncode == 143
    assert site.holdfast("run", "--lease", "--", "/no/such").returncode == 127


# Waiting


def test_with_wait_the_call_sleeps_in_line_and_goes_on(site: Site) -> None:
    first = site.begin(f": >>a.txt; touch {site.flag('one')}; {site.wait_for('end')}")
    site.until_flag("one")
    second = site.begin("echo more >>a.txt && echo done", "--wait", "60")
    until(lambda: "waiting" in site.holdfast("status").stdout.lower(), "the one that waits")
    site.raise_flag("end")
    assert ended(first)[0] == 0
    code, out, err = ended(second)
    assert (code, out) == (0, "done\n"), err
    assert site.text("a.txt") == "alpha\nmore\n"


def test_a_wait_that_is_too_long_ends_with_the_refusal(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    done = site.lease("echo more >>a.txt", "--wait", "0.2")
    assert done.returncode != 0
    assert "other" in done.stderr
    assert site.text("a.txt") == "alpha\n"


def test_a_circle_of_waits_is_a_deadlock_error(site: Site) -> None:
    program = (
        "import errno, os, sys, time\n"
        "mine, other, flags, me, them = sys.argv[1:]\n"
        "open(mine, 'a').close()\n"
        "open(flags + '/' + me, 'w').close()\n"
        "while not os.path.exists(flags + '/' + them): time.sleep(0.02)\n"
        "try: open(other, 'a').close()\n"
        "except OSError as error: print(error.errno == errno.EDEADLK)\n"
        "else: print('written')\n"
    )
    script = site.flags / "program.py"
    script.write_text(program)
    import sys

    def begin(mine: str, other: str, me: str, them: str) -> object:
        return site.begin(
            f"{sys.executable} {script} {mine} {other} {site.flags} {me} {them}", "--wait", "60"
        )

    first, second = begin("a.txt", "b.txt", "1", "2"), begin("b.txt", "a.txt", "2", "1")
    said = sorted(ended(one)[1].strip() for one in (first, second))  # type: ignore[arg-type]
    assert said == ["True", "written"]


# Stale writes


_STALE = (
    "import errno, os, sys, time\n"
    "flags = sys.argv[1]\n"
    "text = open('a.txt').read()\n"
    "open(flags + '/read', 'w').close()\n"
    "while not os.path.exists(flags + '/changed'): time.sleep(0.02)\n"
    "for _ in range(2):\n"
    "    try:\n"
    "        open('a.txt', 'w').write(text + 'mine\\n')\n"
    "        print('written')\n"
    "    except OSError as error:\n"
    "        print(errno.errorcode[error.errno])\n"
    "        text = open('a.txt').read()\n"
    "        if error.errno != errno.ESTALE: break\n"
    "    else: break\n"
)


def test_a_write_of_what_another_changed_meanwhile_fails_once(site: Site) -> None:
    import sys

    (site.flags / "stale.py").write_text(_STALE)
    late = site.begin(f"{sys.executable} {site.flags}/stale.py {site.flags}")
    site.until_flag("read")
    assert site.lease("echo theirs >>a.txt").returncode == 0
    site.raise_flag("changed")
    code, out, err = ended(late)
    assert out.split() == ["ESTALE", "written"], err
    assert "read it again" in err
    assert site.text("a.txt") == "alpha\ntheirs\nmine\n"
    assert code == 0


_ANNOUNCED = (
    "import errno, os, sys, time\n"
    "from holdfast.gate.sandbox import runner_client\n"
    "flags, when = sys.argv[1:]\n"
    "def wait():\n"
    "    open(flags + '/read', 'w').close()\n"
    "    while not os.path.exists(flags + '/changed'): time.sleep(0.02)\n"
    "if when == 'after': wait()\n"
    "reader = 1 if when == 'other' else os.getpid()\n"
    "if when == 'other': wait()\n"
    "runner_client.held_by_others(os.getcwd(), ['a.txt', 'b.txt'], edit=True, reader=reader)\n"
    "if when == 'before': wait()\n"
    "try:\n"
    "    open('a.txt', 'a').write('mine\\n')\n"
    "    print('written')\n"
    "except OSError as error:\n"
    "    print(errno.errorcode[error.errno])\n"
)


@pytest.mark.parametrize(
    ("when", "said"), [("after", "written"), ("before", "ESTALE"), ("other", "ESTALE")]
)
def test_an_edit_that_was_announced_after_the_change_is_not_stale(
    site: Site, when: str, said: str
) -> None:
    """The announcement by a client's hook: from then on the client knows the file's content."""
    import sys

    (site.flags / "announced.py").write_text(_ANNOUNCED)
    late = site.begin(f"exec {sys.executable} {site.flags}/announced.py {site.flags} {when}")
    site.until_flag("read")
    assert site.lease("echo theirs >>a.txt").returncode == 0
    site.raise_flag("changed")
    _code, out, err = ended(late)
    assert out.split() == [said], err


def test_a_process_that_started_later_is_not_refused(site: Site) -> None:
    process = site.begin(
        f"touch {site.flag('begun')}; {site.wait_for('changed')}; sleep 0.1; "
        "sed -i s/alpha/omega/ a.txt"
    )
    site.until_flag("begun")
    site.lease("echo theirs >>a.txt")
    site.raise_flag("changed")
    assert ended(process)[0] == 0
    assert site.text("a.txt") == "omega\ntheirs\n"


def test_a_write_that_had_to_wait_fails_once_if_the_file_changed(site: Site) -> None:
    first = site.begin(
        f"echo 1 >a.txt; touch {site.flag('one')}; {site.wait_for('end')}; echo 2 >a.txt"
    )
    site.until_flag("one")
    second = site.begin("echo mine >>a.txt; echo mine >>a.txt", "--wait", "60")
    until(lambda: "waiting" in site.holdfast("status").stdout.lower(), "the one that waits")
    site.raise_flag("end")
    ended(first)
    _code, _out, err = ended(second)
    assert "Stale" in err
    assert site.text("a.txt") == "2\nmine\n"


def test_a_wait_keeps_what_was_changed_before_it_began(site: Site) -> None:
    import sys

    (site.flags / "stale.py").write_text(_STALE)
    late = site.begin(f"{sys.executable} {site.flags}/stale.py {site.flags}", "--wait", "60")
    site.until_flag("read")
    first = site.begin(f"echo theirs >>a.txt; touch {site.flag('changed')}; {site.wait_for('end')}")
    until(lambda: "waiting" in site.holdfast("status").stdout.lower(), "the one that waits")
    site.raise_flag("end")
    ended(first)
    _code, out, err = ended(late)
    assert out.split() == ["ESTALE", "written"], err
    assert site.text("a.txt") == "alpha\ntheirs\nmine\n"


# Names


def test_a_file_that_is_replaced_by_a_rename_ends_as_one_lease(site: Site) -> None:
    process = site.begin(
        f"sed -i s/alpha/omega/ a.txt; touch {site.flag('written')}; {site.wait_for('seen')}"
    )
    site.until_flag("written")
    assert site.held() == ["a.txt"]
    site.raise_flag("seen")
    ended(process)
    assert site.text("a.txt") == "omega\n"


def test_the_removal_of_a_file_that_was_committed_meanwhile_stays_leased(site: Site) -> None:
    process = site.begin(
        "echo n >n.txt; git add n.txt; git commit -qm n; git rm -q n.txt; "
        f"touch {site.flag('removed')}; {site.wait_for('seen')}"
    )
    site.until_flag("removed")
    assert site.held() == ["n.txt"]
    site.raise_flag("seen")
    ended(process)


def test_a_program_with_a_sandbox_of_its_own_is_told_why_it_cannot_write(site: Site) -> None:
    done = site.lease("unshare -Ur sh -c 'echo x >a.txt'; unshare -Ur sh -c 'echo x >b.txt'")
    if "unshare" in done.stderr and "failed" in done.stderr:
        pytest.skip("user namespaces are switched off here")
    assert site.text("a.txt") == "alpha\n"
    assert done.stderr.count("has other privileges than the command had at its start") == 1


def test_ignored_files_take_no_lease_but_are_refused_if_held(site: Site) -> None:
    done = site.lease("mkdir ignored; echo x >ignored/x; echo x >y.out")
    assert done.returncode == 0
    assert "ignored" not in site.holdfast("log").stdout
    site.holdfast("lock", "--holder", "other", "y.out")
    assert site.lease("echo z >y.out").returncode != 0
    assert site.text("y.out") == "x\n"


def test_a_folder_is_renamed_with_all_its_files_or_not_at_all(site: Site) -> None:
    (site.root / "d").mkdir()
    for name in ("one", "two"):
        (site.root / "d" / name).write_text(name)
    site.holdfast("lock", "--holder", "other", "d/two")
    assert site.lease("mv d e").returncode != 0
    assert (site.root / "d" / "one").exists()
    site.holdfast("unlock", "--holder", "other", "d/two")
    process = site.begin(f"mv d e; touch {site.flag('moved')}; {site.wait_for('seen')}")
    site.until_flag("moved")
    assert site.held() == ["d/one", "d/two", "e/one", "e/two"]
    site.raise_flag("seen")
    assert ended(process)[0] == 0
    assert (site.root / "e" / "two").exists()


def test_rm_r_stops_at_the_file_that_is_held(site: Site) -> None:
    (site.root / "d").mkdir()
    (site.root / "d" / "kept").write_text("kept")
    site.holdfast("lock", "--holder", "other", "d/kept")
    assert site.lease("rm -r d").returncode != 0
    assert (site.root / "d" / "kept").read_text() == "kept"


# The end


def test_a_process_left_running_keeps_the_files_that_it_has_open(site: Site) -> None:
    done = site.lease(
        f"exec 3>>a.txt; echo x >b.txt; ({site.wait_for('end')}; echo y >b.txt; echo late >&3; "
        f"touch {site.flag('over')}) >/dev/null 2>&1 &"
    )
    assert done.returncode == 0
    assert "still running: pid" in done.stderr
    assert "with a.txt open for writing" in done.stderr
    assert site.held() == ["a.txt"]
    assert "left running by run-" in site.grants()[0]["reason"]
    site.raise_flag("end")
    site.until_flag("over")
    until(lambda: site.held() == [], "the end of the process that was left running")
    assert site.text("a.txt") == "alpha\nlate\n"
    assert site.text("b.txt") == "x\n"  # the lease was released, so the process cannot write it


def test_run_does_not_wait_for_processes_left_running(site: Site) -> None:
    process = site.begin(f"({site.wait_for('end')}) & exit 4")
    until(lambda: process.poll() is not None, "the runner")
    site.raise_flag("end")
    assert ended(process)[0] == 4


def test_the_log_of_the_ledger_is_written_back(site: Site) -> None:
    site.lease("for i in 1 2 3 4 5; do echo x >file$i; done")
    log = site.root / ".holdfast" / "ledger.db-wal"
    until(lambda: not log.exists(), "the end of the log")


def test_with_until_commit_what_is_committed_comes_free_earlier(site: Site) -> None:
    process = site.begin(
        f"echo x >a.txt; echo x >b.txt; git commit -qm one a.txt; touch {site.flag('committed')}; "
        f"{site.wait_for('seen')}",
        "--until-commit",
    )
    site.until_flag("committed")
    until(lambda: site.held() == ["b.txt"], "the lease of a.txt to end")
    site.raise_flag("seen")
    assert ended(process)[0] == 0


def test_without_until_commit_it_stays_leased(site: Site) -> None:
    process = site.begin(
        f"echo x >a.txt; git commit -qam one; sleep 1.5; touch {site.flag('committed')}; "
        f"{site.wait_for('seen')}"
    )
    site.until_flag("committed")
    assert site.held() == ["a.txt"]
    site.raise_flag("seen")
    ended(process)


def test_with_the_broker_killed_nothing_is_opened_and_the_leases_stay(site: Site) -> None:
    process = site.begin(
        f"echo x >a.txt; touch {site.flag('written')}; {site.wait_for('killed')}; "
        f"echo y >b.txt; echo $?; {site.wait_for('seen')}"
    )
    site.until_flag("written")
    kill(broker_of(process))
    (site.flags / "killed").touch()
    until(lambda: "its runner was killed" in site.holdfast("status").stdout, "status to say so")
    assert site.held() == ["a.txt"]
    site.raise_flag("seen")
    _code, out, err = ended(process)
    assert out.strip() != "0"
    assert "the broker was killed" in err
    assert site.text("b.txt") == "bravo\n"
    until(lambda: site.held() == [], "the leases to end with their processes")


# Together with others


def test_sandbox_and_lease_close_the_outside_too(site: Site) -> None:
    done = site.lease(
        f"echo x >a.txt && echo inside; echo x >{site.flags}/out || echo closed; "
        f"chmod 600 {site.flags} || echo kept; echo x >$TMPDIR/scratch && echo scratch",
        "--sandbox",
    )
    assert done.stdout.split() == ["inside", "closed", "kept", "scratch"]


def test_what_is_given_with_write_is_taken_at_the_start(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", "a.txt")
    done = site.lease("echo started", "--write", "a.txt")
    assert done.returncode == 3
    assert done.stdout == ""


def test_a_commit_inside_works_and_names_what_others_hold(site: Site) -> None:
    site.holdfast("init", "--yes")
    (site.root / "b.txt").write_text("changed by other\n")
    site.git("add", "b.txt")
    site.holdfast("lock", "--holder", "other", "b.txt")
    done = site.lease("echo x >>a.txt; git commit -qam both")
    assert done.returncode != 0
    assert "b.txt" in done.stderr
    done = site.lease("echo x >>a.txt; git reset -q b.txt; git add a.txt; git commit -qm mine")
    assert done.returncode == 0, done.stderr
    assert site.git("log", "--format=%s").split("\n")[0] == "mine"


# Where it cannot run


@pytest.mark.parametrize("abi", [0, 1, 2])
def test_an_old_kernel_is_refused_with_the_reason(site: Site, abi: int) -> None:
    import subprocess
    import sys

    from helpers_cli import environment

    done = subprocess.run(
        [sys.executable, "-c", OLD_KERNEL, str(abi), "run", "--lease", "--json", "--", "true"],
        cwd=site.root, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "E_SANDBOX" in done.stdout + done.stderr


def test_below_a_broker_there_is_no_second_one(site: Site) -> None:
    import sys

    done = site.lease(f"{sys.executable} -m holdfast run --lease --json -- true")
    assert done.returncode == 1
    assert json.loads(done.stdout or done.stderr)["error"]["code"] == "E_SANDBOX"
