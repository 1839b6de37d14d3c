"""Redirections of shells, and the programs that shells start to change files."""

from __future__ import annotations

from lease_world import Rows

ROWS = Rows()

#: In every shell with the syntax of sh: the line, and the file that it writes.
REDIRECTIONS = {
    "write": "echo new >a.txt",
    "append": "echo new >>a.txt",
    "clobber": "set -C; echo new >|a.txt",
    "here-document": "cat >a.txt <<END\none $((1 + 1))\nEND\n",
    "read-and-write": "exec 3<>a.txt && echo new >&3 && exec 3>&-",
    "empty": ": >a.txt",
    "twice": "{ echo out; echo err >&2; } >a.txt 2>&1",
    "no-clobber": "set -C; echo new >a.txt",
    "masked": "umask 077; echo new >made; umask 0; echo new >open",
    "missing-folder": "echo new >none/a.txt",
    "a-folder": "echo new >d",
    "in-background": "echo new >a.txt & wait $!",
    "subshell": "(cd d && echo new >../a.txt)",
    "through-a-link": "echo new >link",
}
REFUSED_ANYWAY = ("no-clobber", "masked", "missing-folder", "a-folder")

for _shell in ("sh", "bash", "zsh", "fish", "busybox"):
    _words = (_shell, "sh", "-c") if _shell == "busybox" else (_shell, "-c")
    for _name, _script in REDIRECTIONS.items():
        if _shell == "fish":
            continue
        _victim = "" if _name in REFUSED_ANYWAY else "a.txt"
        ROWS.program(f"{_shell}-{_name}", *_words, _script, victim=_victim)

ROWS.program("fish-write", "fish", "-N", "-c", "echo new >a.txt", victim="a.txt")
ROWS.program("fish-append", "fish", "-N", "-c", "echo new >>a.txt", victim="a.txt")
ROWS.program("fish-no-clobber", "fish", "-N", "-c", "echo new >?a.txt; echo new >?b2.txt")
ROWS.program("fish-both", "fish", "-N", "-c", "echo new &>a.txt", victim="a.txt")
ROWS.program("fish-pipe", "fish", "-N", "-c", "cat b.txt | cat >a.txt", victim="a.txt")

ROWS.program("bash-both", "bash", "-c", "echo new &>a.txt", victim="a.txt")
ROWS.program("bash-variable", "bash", "-c", "exec {fd}>a.txt; echo new >&$fd", victim="a.txt")
ROWS.program(
    "bash-process-substitution", "bash", "-c", "cat b.txt > >(cat >a.txt); wait $!",
    victim="a.txt", quiet=True,
)  # fmt: skip
ROWS.program(
    "bash-tee-substitution", "bash", "-c", "tee >(cat >made) <b.txt >a.txt && wait $!",
    victim="a.txt",
)  # fmt: skip
ROWS.program("bash-here-string", "bash", "-c", "cat >a.txt <<<new", victim="a.txt")
ROWS.program("bash-loop", "bash", "-c", "for i in {1..40}; do echo $i >>a.txt; done",
             victim="a.txt")  # fmt: skip
ROWS.program("zsh-many", "zsh", "-c", "echo new >a.txt >made", victim="a.txt")

# Paths that are not files

ROWS.sh("devices", "echo gone >/dev/null; echo out >/dev/stdout; echo err >/dev/stderr")
ROWS.sh("dev-fd", "exec 4>a.txt; echo new >/dev/fd/4", "a.txt")
ROWS.sh("dev-stdout-to-file", "sh -c 'echo more >/dev/stdout' >a.txt", "a.txt")
ROWS.program("own-name-in-proc", "bash", "-c",
             "echo renamed >/proc/self/comm; cat /proc/$$/comm; cat /proc/self/comm")  # fmt: skip
ROWS.program("thread-name-in-proc", "bash", "-c",
             "echo renamed >/proc/thread-self/comm; cat /proc/$$/comm; true")  # fmt: skip
ROWS.sh("proc-cwd", "echo new >/proc/self/cwd/a.txt", "a.txt")
ROWS.sh("proc-root", 'echo new >"/proc/self/root$PWD/a.txt"', "a.txt")
ROWS.sh(
    "pipe-with-a-name", "mkfifo p; cat p | tee a.txt & echo through >p; wait $!; rm p", "a.txt",
    quiet=True,
)  # fmt: skip
ROWS.sh("pipe-that-waits", "mkfifo p; (sleep 0.1; cat p) & echo through >p; wait; rm p")
ROWS.program(
    "terminal", "script", "-qec", "echo to the terminal >/dev/tty; echo new >a.txt", "/dev/null",
    victim="a.txt",
)  # fmt: skip
ROWS.sh("outside", 'f=$(mktemp); echo new >"$f"; cat "$f"; rm "$f"')
ROWS.sh(
    "outside-through-a-link", 'f=$(mktemp); ln -s "$f" out; echo new >out; cat "$f"; rm "$f" out'
)

# Many at once

ROWS.sh("find-exec", "find d -name '*.txt' -exec sh -c 'echo new >>\"$1\"' sh {} \\;",
        "d/one.txt", quiet=True)  # fmt: skip
ROWS.sh("find-exec-plus", "find d -name '*.txt' -exec sed -i s/o/0/ {} +", "d/one.txt")
ROWS.sh("find-delete", "find d -name '*.txt' -delete", "d/one.txt")
ROWS.sh("xargs", "ls d/*.txt | xargs -n1 -P4 sh -c 'echo new >>$0'", "d/one.txt")
ROWS.sh("xargs-many", "seq 60 | xargs -P4 -I{} sh -c 'echo {} >made-{}'")
ROWS.sh("background-jobs", "for i in 1 2 3 4 5 6; do echo $i >made-$i & done; wait")

# Reading files that another holder has

ROWS.sh("cat", "cat a.txt link", beside="a.txt")
ROWS.sh("grep", "grep -rn a . --include='*.txt' | sort", beside="a.txt")
ROWS.sh("copy-away", "cp a.txt made; cp -p a.txt made-too; cmp a.txt made", beside="a.txt")
ROWS.sh("tar-away", "tar cf made.tar a.txt d; tar tf made.tar", beside="d/one.txt",
        differs=("made.tar",))  # fmt: skip
ROWS.sh("test", "test -r a.txt && test -w a.txt && stat -c %s%a a.txt", beside="a.txt")
ROWS.sh("write-beside", "echo new >b.txt; rm d/two.txt; mv d/sub d/other", beside="d/one.txt")
