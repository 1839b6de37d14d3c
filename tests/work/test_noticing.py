"""A refused write of an agent is noticed, whatever tool it uses."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from conftest import furnish, until
from helpers_launcher import PYTHON, Bench
from helpers_sandbox import NEEDS_LANDLOCK, WITHOUT_CALL
from holdfast.gate.sandbox.gaps import denied_writes
from holdfast.gate.sandbox.gaps.temp_names import is_temporary, stands_in_for
from holdfast.gate.sandbox.kernel import seccomp
from holdfast.work.engine.callbacks import Again
from holdfast.work.launching.slots import Ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is part of Linux")

Test = TypeVar("Test", bound=Callable[..., object])

NEEDS_LISTENER = pytest.mark.skipif(
    sys.platform == "linux" and bool(seccomp.lacks()),
    reason=f"needs a listener: {seccomp.lacks() if sys.platform == 'linux' else ''}",
)


@pytest.fixture
def bench(repository: Path) -> Iterator[Bench]:
    made = Bench(repository)
    yield made
    made.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(furnish(tmp_path_factory.mktemp("kept") / "repository"))
    yield made
    made.close()


@pytest.fixture
def again(kept: Bench) -> Iterator[Bench]:
    """A launcher that other tests had before, with another item; all files are as they were."""
    yield kept
    for path in kept.root.iterdir():
        if path.name == ".holdfast":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    furnish(kept.root)
    kept.begin_anew()


def real(function: Test) -> Test:
    """A test that needs kernel support."""
    marked: Test = NEEDS_LANDLOCK(NEEDS_LISTENER(function))
    return marked


# What is noticed


@real
@pytest.mark.parametrize(
    ("script", "gaps"),
    [
        ("echo x > lib/y.rb", ["lib/y.rb"]),
        ("echo x >> lib/y.rb", ["lib/y.rb"]),
        ("echo x > lib/new.rb", ["lib/new.rb"]),
        ("cd lib; echo x > ../app/models/user.rb", ["app/models/user.rb"]),
        ("echo x > \"$PWD/lib/../lib//./y.rb\"", ["lib/y.rb"]),
        ("exec 9< lib; echo x > /proc/self/fd/9/y.rb", ["lib/y.rb"]),
        ("cp app/x.rb lib/y.rb", ["lib/y.rb"]),
        ("cp app/x.rb lib/copy.rb", ["lib/copy.rb"]),
        ("mv lib/y.rb lib/z.rb", ["lib/y.rb", "lib/z.rb"]),
        ("mv app/x.rb lib/z.rb", ["lib/z.rb"]),
        ("mv \"$(mktemp)\" lib/z.rb", ["lib/z.rb"]),
        ("rm -f lib/y.rb", ["lib/y.rb"]),
        ("rm -rf lib", ["lib/y.rb"]),
        ("touch lib/y.rb lib/t.rb", ["lib/y.rb", "lib/t.rb"]),
        ("truncate -s 0 lib/y.rb", ["lib/y.rb"]),
        ("ln -s y.rb lib/link.rb", ["lib/link.rb"]),
        ("ln lib/y.rb lib/hard.rb", ["lib/hard.rb"]),
        ("mkdir -p lib/deep/er && echo x > lib/deep/er/z.rb", ["lib/deep/"]),
        ("sed -i s/old/new/ lib/y.rb", ["lib/y.rb"]),
        ("perl -pi -e s/old/new/ lib/y.rb", ["lib/y.rb"]),
        ("ls | tee lib/list.rb", ["lib/list.rb"]),
        ("dd if=app/x.rb of=lib/y.rb", ["lib/y.rb"]),
        ("install -m 644 app/x.rb lib/inst.rb", ["lib/inst.rb"]),
        ("echo x > app/x.rb.tmp.4711.12; echo x > lib/y.rb.tmp.4711.12", ["lib/y.rb"]),
    ],
)  # fmt: skip
def test_tools_that_write_what_they_may_not(again: Bench, script: str, gaps: list[str]) -> None:
    bench = again
    before = (bench.root / "lib/y.rb").read_text()
    said = bench.shell(script)
    assert bench.gaps == gaps, said
    assert (bench.root / "lib/y.rb").read_text() == before
    (first, *_) = bench.events
    assert first.data["grant"] == bench.item.grant_id
    assert "does not cover" in first.data["why"]


@real
@pytest.mark.parametrize(
    "script",
    [
        "echo x > app/x.rb; echo y >> new/made.rb; : > app/x.rb",
        "cd $TMPDIR; echo x > a; mkdir d; mv a d/b; ln -s b d/c; rm -r d",
        "echo x > /dev/null; echo x > /dev/stdout; echo x 2> /dev/stderr",
        "cat lib/y.rb app/models/user.rb; ls -R",
        "echo x > build/out.o; mkdir build/deep; rm build/out.o",
        "echo x > no/such/folder; : < no/such/file",
        "mkdir -p lib app/models; ln -s x lib/y.rb",
        "echo x > lib",
        "rm -f app/x.rb; mv app/x.rb $TMPDIR/x; sed -i s/o/u/ app/x.rb; perl -pi -e 1 app/x.rb",
        "echo x > .git/index.lock; git status; echo x > .holdfast/ledger.db",
        "mkdir lib/__pycache__; echo x > lib/y.pyc; echo x > ignored.txt; mkdir ignored",
        "rmdir lib/empty",
        "echo x > ../outside; mkdir ../folder; rm -f ../agents",
    ],
)
def test_a_write_that_is_allowed_or_fails_anyway_is_not_a_gap(again: Bench, script: str) -> None:
    bench = again
    subprocess.run(["git", "init", "-q", str(bench.root)], check=True)
    (bench.root / ".gitignore").write_text("ignored*\nignored/\n")
    (bench.root / "lib/empty").mkdir()
    (bench.root.parent / "agents").touch()
    bench.shell(script, write=["build/"])
    assert bench.gaps == []


@real
def test_a_grant_names_its_files_by_inode_as_the_kernel_does(bench: Bench) -> None:
    """Another name of a file that it may write is open, and not a gap."""
    os.link(bench.root / "app/x.rb", bench.root / "lib/other.rb")
    assert bench.shell("echo new > lib/other.rb && echo fine") == "fine\n"
    assert bench.gaps == []


@real
def test_links_are_followed_to_the_file_that_is_meant(bench: Bench) -> None:
    (bench.root / "way").symlink_to("lib")
    (bench.root / "app/file").symlink_to("../lib/y.rb")
    (bench.root / "app/dangling").symlink_to("../lib/none.rb")
    bench.shell(
        "echo x > way/a.rb; echo x > app/file; echo x > app/dangling; rm -f app/file; "
        "ln -s $PWD/lib $TMPDIR/l; echo x > $TMPDIR/l/b.rb"
    )
    assert bench.gaps == ["lib/a.rb", "lib/y.rb", "lib/none.rb", "app/file", "lib/b.rb"]


@real
def test_paths_from_the_folder_of_a_descriptor(bench: Bench) -> None:
    bench.python("""
import os
def attempt(function, *words, **more):
    try:
        function(*words, **more)
    except OSError as error:
        assert error.errno == 13, error
    else:
        raise SystemExit(f"{words} went through")
lib = os.open("lib", os.O_RDONLY)
app = os.open("app", os.O_PATH)
os.chdir("/")
attempt(os.open, "a.rb", os.O_WRONLY | os.O_CREAT, dir_fd=lib)
attempt(os.open, "../lib/b.rb", os.O_RDWR | os.O_CREAT, dir_fd=app)
attempt(os.rename, "y.rb", "moved.rb", src_dir_fd=lib, dst_dir_fd=app)
attempt(os.unlink, "models/user.rb", dir_fd=app)
attempt(os.mkdir, "folder", dir_fd=lib)
attempt(os.symlink, "x", "sym.rb", dir_fd=lib)
attempt(os.open, "y.rb", os.O_RDONLY | os.O_TRUNC, dir_fd=lib)
os.close(os.open("y.rb", os.O_RDONLY | os.O_CREAT, dir_fd=lib))  # it is there: only read
""")
    assert bench.output.read_text() == ""
    assert bench.gaps == [
        "lib/a.rb", "lib/b.rb", "lib/y.rb", "app/moved.rb", "app/models/user.rb", "lib/folder/",
        "lib/sym.rb",
    ]  # fmt: skip


@real
def test_an_open_that_has_its_flags_elsewhere(bench: Bench) -> None:
    bench.python("""
import ctypes, os, struct
library = ctypes.CDLL(None, use_errno=True)
def openat2(path, flags):
    how = struct.pack("QQQ", flags, 0o644 if flags & os.O_CREAT else 0, 0)
    found = library.syscall(437, -100, path, how, len(how))
    print(found < 0 and ctypes.get_errno())
openat2(b"lib/y.rb", os.O_RDONLY)
openat2(b"lib/y.rb", os.O_WRONLY)
openat2(b"lib/n.rb", os.O_WRONLY | os.O_CREAT)
openat2(b"app/x.rb", os.O_WRONLY)
""")
    assert bench.output.read_text().split() == ["False", "13", "13", "False"]
    assert bench.gaps == ["lib/y.rb", "lib/n.rb"]


@real
@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls by their numbers on x86_64")
def test_arguments_that_point_nowhere_do_no_harm(bench: Bench) -> None:
    said = bench.python("""
import ctypes, mmap, os
library = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 8192)
end = ctypes.addressof(ctypes.c_char.from_buffer(page)) + 8192
ctypes.memmove(end - 9, b"lib/y.rb", 9)
word = ctypes.c_ulong
def call(number, *arguments):
    library.syscall(number, *[word(one & (1 << 64) - 1) for one in arguments])
    print(ctypes.get_errno(), end=" ")
path = end - 9
for wrong in (0, 1, -1, 1 << 63, (1 << 47) - 1, 0xFFFF800000000000):
    call(257, -100, wrong, 1, 0)
    call(437, -100, wrong, wrong, 24)
    call(437, -100, path, wrong, 24)
    call(264, -100, path, -100, wrong)
call(437, -100, path, end - 4, 24)
call(257, 12345, path, 1, 0)
for odd in ("/proc/self/fd/²/x", "/dev/fd/99999999999999999999/x", "/proc/self/fd/-1/x"):
    try:
        open(odd, "w")
    except OSError:
        pass
call(257, -1, path, 1, 0)
call(257, -100, path, 1, 0)
""")
    assert said.split()[-1] == str(errno.EACCES)
    assert bench.gaps == ["lib/y.rb"]


@real
def test_paths_of_odd_bytes_are_told_so_that_they_can_be_read(bench: Bench) -> None:
    bench.python("""
import os
for name in (b"lib/\\xff\\xfe.rb", b"lib/a\\nb.rb", "lib/\u00e4\u2603.rb".encode(), b"lib/ .rb",
             b"lib/" + b"n" * 255, b"lib/" + b"n" * 256, b"lib/\\"'\\\\.rb", b"",
             b"lib/e\\xcc\\x81.rb"):
    try:
        open(name, "wb")
    except OSError:
        pass
""")
    assert bench.gaps == [
        "lib/\\udcff\\udcfe.rb", "lib/a\nb.rb", "lib/\u00e4\u2603.rb", "lib/ .rb",
        "lib/" + "n" * 255, "lib/\"'\\.rb", "lib/e\u0301.rb",
    ]  # fmt: skip


@real
def test_many_threads_and_processes_at_once(bench: Bench) -> None:
    said = bench.python("""
import os, subprocess, threading
def one(number):
    os.makedirs(f"{os.environ['TMPDIR']}/{number}")
    for at in range(20):
        with open(f"{os.environ['TMPDIR']}/{number}/{at}", "w") as file:
            file.write("x")
    try:
        open(f"lib/{number}.rb", "w")
    except PermissionError:
        pass
threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
for thread in threads:
    thread.start()
children = [subprocess.Popen(["/bin/sh", "-c", f"echo x > lib/p{n}.rb"], stderr=subprocess.DEVNULL)
            for n in range(6)]
for one in (*threads,):
    one.join()
for one in children:
    one.wait()
print(sum(len(files) for _f, _d, files in os.walk(os.environ["TMPDIR"])))
""")
    assert said == "240\n"
    expected = [f"lib/{n}.rb" for n in range(12)] + [f"lib/p{n}.rb" for n in range(6)]
    assert sorted(bench.gaps) == sorted(expected)


@real
def test_a_process_that_vforks_and_changes_its_session_is_seen_too(bench: Bench) -> None:
    """posix_spawn shares the memory of its parent until it executes, and opens files there."""
    bench.python("""
import os
try:
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "lib/spawned.rb", os.O_WRONLY | os.O_CREAT, 0o644)])
except PermissionError:
    pass
if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sh", ["sh", "-c", "cd lib; echo x > session.rb"])
os.wait()
""")
    assert bench.gaps == ["lib/spawned.rb", "lib/session.rb"]


@real
def test_each_path_is_told_once_and_only_so_many(bench: Bench) -> None:
    most = denied_writes.NOTICED_MAX
    bench.shell(
        f"for i in $(seq 0 {most + 99}); do echo > lib/$i.rb; echo > lib/$i.rb; done 2> /dev/null; "
        "echo > app/x.rb && echo goes on"
    )
    assert bench.output.read_text() == "goes on\n"
    assert bench.gaps == [f"lib/{at}.rb" for at in range(most)]


# Effects on an agent


@real
def test_an_agent_with_a_filter_of_its_own(bench: Bench) -> None:
    """A filter that refuses a call takes precedence; one that lets all through takes nothing away
    from ours."""
    inner = [PYTHON, "-c", "import os; print(os.access('app', 0)); open('lib/y.rb', 'w')"]
    command = [PYTHON, "-c", WITHOUT_CALL, "21", "1", *inner]
    bench.run(*command)
    assert "PermissionError" in bench.output.read_text()
    assert bench.gaps == ["lib/y.rb"]


@real
def test_an_agent_within_an_agent_does_without(bench: Bench) -> None:
    """There can be one listener only: an inner launcher does not notice writes of the inner agent,
    and the outer one sees both."""
    said = bench.python(
        "from holdfast.gate.sandbox.kernel import seccomp\nprint(seccomp.lacks())\n"
        "try:\n    seccomp.Filter().install()\nexcept OSError as error:\n    print(error.errno)\n"
        "try:\n    open('lib/y.rb', 'w')\nexcept OSError as error:\n    print(error.errno)\n"
    )
    first, *rest = said.splitlines()
    assert "only one" in first
    assert rest == [str(errno.EBUSY), str(errno.EACCES)]
    assert bench.gaps == ["lib/y.rb"]


@real
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="only x86_64 has a second way of calling"
)
def test_calls_in_another_way_pass_and_are_refused_all_the_same(bench: Bench) -> None:
    """`int 0x80` is the way of 32 bits: not examined, but Landlock refuses it nevertheless."""
    said = bench.python("""
import ctypes, mmap
code = bytes.fromhex("53" "89f8" "89f3" "89d1" "ba00000000" "cd80" "5b" "c3")
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
where = ctypes.addressof(ctypes.c_char.from_buffer(page))
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint)(where)
low = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=3)
at = ctypes.addressof(ctypes.c_char.from_buffer(low))
assert at < 1 << 32
low.write(b"lib/y.rb\\0")
print(call(5, at, 1))
""")
    assert said.strip() in ("-13", "-38")  # or this kernel has no such way
    assert bench.gaps == []


@real
def test_an_agent_that_is_killed_in_the_middle_of_it(bench: Bench) -> None:
    """Its calls die with it; the launcher still works."""
    script = (
        "import os, signal, threading\n"
        "def write():\n    while True:\n        open(os.environ['TMPDIR'] + '/x', 'w').close()\n"
        "for _ in range(4): threading.Thread(target=write, daemon=True).start()\n"
        "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()\n"
    )
    ended = bench.run(PYTHON, "-c", script)
    assert ended.code == -signal.SIGKILL
    assert bench.shell("echo x > lib/y.rb; echo on").endswith("on\n")
    assert bench.gaps == ["lib/y.rb"]


@real
def test_signals_do_not_keep_an_agent_from_writing(bench: Bench) -> None:
    said = bench.python("""
import os, signal
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for at in range(300):
    with open(f"{os.environ['TMPDIR']}/{at}", "w") as file:
        file.write("x")
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(os.listdir(os.environ["TMPDIR"])), len(heard) > 5)
""")
    assert said == "300 True\n"


@real
def test_processes_left_by_a_killed_launcher_can_open_nothing_for_writing(
    bench: Bench, tmp_path: Path
) -> None:
    """Not even what it was granted: the next holder has the file for itself."""
    place = tmp_path / "listed"
    place.mkdir()
    orphan = (
        "import os, sys, time\n"
        f"file = open({str(place / 'said')!r}, 'w', buffering=1)\n"
        "print(os.getpid(), file=file)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "for path in ('app/x.rb', 'lib/y.rb', os.environ['TMPDIR'] + '/x', '/dev/null'):\n"
        "    try:\n        open(path, 'a')\n    except OSError as error:\n"
        "        print(error.errno, file=file)\n"
        "print('read', len(open('app/x.rb').read()), file=file)\n"
        "print('end', file=file)\n"
    )
    (tmp_path / "orphan.py").write_text(orphan)
    script = f"setsid {PYTHON} {tmp_path}/orphan.py & exec sleep 1000"
    failed: list[BaseException] = []

    def run() -> None:
        try:
            bench.sh(script, write=[f"{place}/"])
        except BaseException as error:
            failed.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    said = place / "said"
    until(lambda: said.exists() and said.read_text().endswith("\n"), "the orphan runs")
    os.kill(bench.pid, signal.SIGKILL)
    runner.join(60)
    assert isinstance(failed[0], Again)
    (tmp_path / "go").touch()
    until(lambda: said.read_text().endswith("end\n"), "the orphan has tried")
    assert said.read_text().split()[1:] == [str(errno.ENOSYS)] * 4 + ["read", "4", "end"]


@real
def test_an_agent_continues_while_the_ledger_cannot_be_written(
    bench: Bench, tmp_path: Path
) -> None:
    """Gaps are recorded by another process than the one that lets calls through."""
    go = tmp_path / "go"
    script = (
        f"echo up; until [ -e {go} ]; do sleep 0.01; done; "
        "echo x > lib/a.rb; echo x > lib/b.rb; echo through > app/x.rb"
    )
    ended: list[Ended] = []
    runner = threading.Thread(target=lambda: ended.append(bench.sh(script)))
    runner.start()
    until(lambda: bench.output.exists() and "up" in bench.output.read_text(), "it is up")
    grant = bench.manager.try_acquire(holder="other", write_paths=["lib/other.rb"])
    assert grant is not None
    with bench.manager.fenced(grant):
        go.touch()
        until(lambda: (bench.root / "app/x.rb").read_text() == "through\n", "it is through", 8)
    runner.join(60)
    assert ended[0].code == 0
    assert bench.gaps == ["lib/a.rb", "lib/b.rb"]


# Where the kernel cannot do it


@real
def test_without_a_listener_all_else_is_as_before() -> None:
    """On a system without seccomp the filter is left out, and the reason is printed."""
    number = seccomp.MACHINES[os.uname().machine].seccomp
    script = (
        "from holdfast.gate.sandbox.kernel import seccomp\nprint(seccomp.lacks())\n"
        "import os, sys\nfrom holdfast.gate.sandbox.gaps.denied_writes import DeniedWrites\n"
        "made = DeniedWrites('/', {}, [])\nmade.enter()\nmade.begin()\nprint(made.ears)\n"
        "open(os.devnull, 'w').write('x')\nmade.close()\nprint('on')\n"
    )
    for said in (errno.ENOSYS, errno.EPERM):
        done = subprocess.run(
            [PYTHON, "-c", WITHOUT_CALL, str(number), str(said), PYTHON, "-c", script],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout.splitlines() == [seccomp._WHY[said], "[]", "on"]


def test_another_machine_or_system_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "MACHINES", {})
    assert "does not know how" in seccomp.lacks()
    made = denied_writes.DeniedWrites("/", {}, [])
    made.enter()
    made.begin()
    assert made.ears == []
    made.close()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "not Linux" in seccomp.lacks()


@pytest.mark.parametrize("machine", list(seccomp.MACHINES))
def test_the_filter_tells_exactly_what_writes(machine: str) -> None:
    """The filter program, run as the kernel runs it, by its instructions alone."""
    known = seccomp.MACHINES[machine]
    steps = seccomp.program(known)
    flags_at = {"open": 1, "openat": 2}

    def told(number: int, audit: int, *arguments: int) -> bool:
        data = number.to_bytes(4, "little") + audit.to_bytes(4, "little") + bytes(8)
        data += b"".join(one.to_bytes(8, "little") for one in (*arguments, *[0] * 6)[:6])
        at = value = 0
        while True:
            code, yes, no, k = struct.unpack_from("=HBBI", steps, at * 8)
            at += 1
            if code == 0x20:
                value = int.from_bytes(data[k : k + 4], "little")
            elif code in (0x15, 0x45):
                at += yes if (value == k if code == 0x15 else value & k) else no
            else:
                assert code == 0x06
                return {0x7FC00000: True, 0x7FFF0000: False}[k]

    for number in range(500):
        name = known.calls.get(number, "")
        if name in flags_at:
            for flags, writes in (
                (os.O_RDONLY, False), (os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, False),
                (os.O_PATH, False), (os.O_WRONLY, True), (os.O_RDWR, True), (os.O_CREAT, True),
                (os.O_TRUNC, True),
            ):  # fmt: skip
                arguments = [0] * 6
                arguments[flags_at[name]] = flags
                assert told(number, known.audit, *arguments) is writes, (name, flags)
        else:
            assert told(number, known.audit) is bool(name), (number, name)
        assert not told(number, 0x40000003, *[os.O_WRONLY] * 6)
        assert not told(number | 0x40000000, known.audit, *[os.O_WRONLY] * 6)


# Files that stand in for others


@pytest.mark.parametrize(
    ("new", "meant"),
    [
        ("x.rb.tmp.4711.1712", "x.rb"), ("x.rb~", "x.rb"), (".x.rb.swp", "x.rb"),
        ("x.rb.tmp", "x.rb"), (".x.rb.Ab12Cd", "x.rb"), ("x.rb.oAbCdEf", "x.rb"),
        ("#x.rb#", "x.rb"), ("x.rb.orig", "x.rb"), ("x.rb-tmp1", "x.rb"),
        ("x.rb.erb", "x.rb.erb"), ("README.markdown", "README.markdown"),
        ("Gemfile.lock", "Gemfile.lock"), ("README.md", "README.md"), ("y.rb.tmp", "y.rb.tmp"),
        ("renew", "renew"), (".x.rb", ".x.rb"),
    ],
)  # fmt: skip
def test_a_name_tells_for_which_file_it_stands_in(tmp_path: Path, new: str, meant: str) -> None:
    for name in ("x.rb", "README", "Gemfile", "re"):
        (tmp_path / name).touch()
    assert stands_in_for(f"{tmp_path}/{new}", None, ()) == f"{tmp_path}/{meant}"


def test_a_random_name_stands_in_for_what_is_open_beside_it(tmp_path: Path) -> None:
    for name in ("x.rb", "y.rb"):
        (tmp_path / name).touch()
    new = f"{tmp_path}/sedAb12"
    assert stands_in_for(new, ["/etc/passwd", f"{tmp_path}/y.rb"], ()) == f"{tmp_path}/y.rb"
    assert stands_in_for(new, ["pipe:[1]"], [f"{tmp_path}/x.rb"]) == f"{tmp_path}/x.rb"
    assert stands_in_for(new, [], ["/elsewhere/x.rb"]) == f"{tmp_path}/"


def test_what_mkstemp_makes_is_temporary() -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    assert is_temporary(flags | os.O_CLOEXEC, 0o600)
    assert not is_temporary(flags, 0o644)
    assert not is_temporary(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    assert not is_temporary(os.O_RDWR | os.O_CREAT, 0o600)
