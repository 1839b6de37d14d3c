"""The text of our hooks of git: small scripts for any shell, each with a checksum.

In git's own folder, the hook that was there before runs as `NAME.holdfast-before`. In a folder of
our own (`hook_folder`) it is the one that git would have run without Holdfast, looked up when the
hook runs.

A hook that may refuse runs before that one, which may format files, and once more afterwards,
because that one may have staged more. A hook that releases runs after it: files that it changed
again are not clean. A manager that removes the work of others from the work tree runs with an index
of its own (`commit_index`), which hides that work.

Some hooks choose by their own name what to do. Of those, shell scripts are run under the name
that they had; others cannot be chained in git's own folder.

The pre-commit framework, if it is installed later, renames our hook to `NAME.legacy`. It runs that
first, but ignores its result. So a hook that refuses under that name ends the framework.
"""

from __future__ import annotations

import os

from holdfast.gate.git.hook_managers import is_made_by_pre_commit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The suffix of a hook that was there before.
BEFORE = ".holdfast-before"
#: The pre-commit framework's suffix for a hook that it found.
LEGACY = ".legacy"

_BEGIN = b"#!/bin/sh\n# holdfast hook 1 "
_MADE = b"\n# The folder was made for it.\n"
#: Not zsh: there a sourced script gets a `$0` of its own.
_SHELLS = ("sh", "bash", "dash", "ksh", "ash")
_TEXT_BYTES_MAX = 1 << 20

#: What a hook of ours does: it refuses, releases, furnishes a new worktree, or only passes on.
CHECKS, RELEASES, FURNISHES, PASSES = "checks", "releases", "furnishes", "passes"
#: Their argument: another hook follows, it has run, or only an index for it is needed.
FIRST, AGAIN, SHIELD = "first", "again", "shield"

# Otherwise git clears skip-worktree, in a sparse checkout, from files that exist.
_SHIELDED = """believe="'sparse.expectfilesoutsideofpatterns=true'"
shielded() {
    [ -n "$copy" ] || { run "$@"; return $?; }
    (
        GIT_INDEX_FILE=$copy
        GIT_CONFIG_PARAMETERS="${GIT_CONFIG_PARAMETERS:+$GIT_CONFIG_PARAMETERS }$believe"
        export GIT_INDEX_FILE GIT_CONFIG_PARAMETERS
        run "$@"
    )
}
forget() { [ -z "$copy" ] || rm -f -- "$copy" "$copy.was" "$copy.lock"; }
trap 'forget; exit 130' HUP INT TERM"""

_REFUSE = """# The pre-commit framework may have moved this file, and ignores its result.
refuse() {
    case $0 in *.legacy)
        case $(tr '\\0' ' ' <"/proc/$PPID/cmdline" || ps -o args= -p "$PPID") in
            *hook-impl*) kill "$PPID" ;;
        esac 2>/dev/null
    esac
    exit 1
}"""


def read(path: str) -> bytes:
    """The text of a hook; empty if there is none, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_TEXT_BYTES_MAX)
    except OSError:
        return b""


def is_ours(text: bytes) -> bool:
    """Whether a hook is one of ours, edited or not."""
    return text.startswith(_BEGIN)


def is_whole(text: bytes) -> bool:
    """Whether one of ours is unedited."""
    said, _, rest = text[len(_BEGIN) :].partition(b"\n")
    return said.startswith(_sum(rest) + b":")


def made_its_folder(text: bytes) -> bool:
    """Whether Holdfast made the folder of hooks for it."""
    return _MADE in text


def cannot_be_chained(text: bytes) -> str:
    """Why a hook cannot run under another name, if it cannot."""
    if _interpreter(text) is None and _reads_its_name(text):
        return "it chooses what to run by its own file name, and cannot run under another name"
    return ""


def render(name: str, words: Sequence[str], before: bytes, *, kind: str, made: bool) -> bytes:
    """The whole script for git's own folder. `words` is the command that it runs, `before` the text
    of the hook that was there, `kind` one of CHECKS, RELEASES, FURNISHES and PASSES."""
    lines = [
        f"# The hook that was here before is {name}{BEFORE} beside it; this one runs it.",
        *([_MADE.decode().strip()] if made else []),
        "folder=${0%/*}",
        '[ "$folder" != "$0" ] || folder=.',
        f"before=$folder/{name}{BEFORE}",
        *_once(before),
        f"run() {{ {_chained(before)}; }}",
        f"may_stash() {{ {'true' if is_made_by_pre_commit(before) else 'false'}; }}",
        *_body(name, words, kind),
    ]
    return _signed(lines)


def render_own(name: str, words: Sequence[str], *, kind: str) -> bytes:
    """The same for the folder of our own."""
    lines = [
        "# The file config in the folder above makes git look here. This hook also runs the one",
        "# that git would run otherwise.",
        "folder=${0%/*}",
        "theirs=$(git config --type=path --get-all core.hooksPath | while IFS= read -r one; do",
        '    [ "$one" = "$folder" ] || printf "%s\\n" "$one"',
        "done | tail -n 1)",
        '[ -n "$theirs" ] || theirs=$(git rev-parse --git-common-dir)/hooks',
        f"before=$theirs/{name}",
        '[ ! "$before" -ef "$0" ] || before=',
        'run() { "$before" "$@"; }',
        # husky's scripts call the ones of their name in the folder above
        f'may_stash() {{ grep -q -s -e pre-commit -e prek "$before" "${{theirs%/_}}/{name}"; }}',
        *_body(name, words, kind),
    ]
    return _signed(lines)


def _signed(lines: list[str]) -> bytes:
    rest = os.fsencode("\n".join([*lines, ""]))
    return _BEGIN + _sum(rest) + b": holdfast init made it, holdfast init --undo undoes it\n" + rest


def _body(name: str, words: Sequence[str], kind: str) -> list[str]:
    ask = f'ask() {{ {_command((*words, "git", name))} "$@"; }}'
    if kind == PASSES:
        return [_SHIELDED, ask, *_pass(words)]
    if kind == FURNISHES:
        return [_SHIELDED, ask, *_furnish(words)]
    return [_SHIELDED, ask, *(_check if kind == CHECKS else _release)(name, words)]


def _check(name: str, words: Sequence[str]) -> list[str]:
    return [
        _REFUSE,
        *_gone(name, words, "refuse"),
        '[ -x "$before" ] || { ask || refuse; exit 0; }',
        f"copy=$(ask {FIRST}) || refuse",
        'shielded "$@" || { code=$?; forget; exit $code; }',
        f'ask {AGAIN} ${{copy:+"$copy"}} || {{ forget; refuse; }}',
        "forget",
    ]


def _release(name: str, words: Sequence[str]) -> list[str]:
    return [
        "code=0 copy=",
        'if [ -x "$before" ]; then',
        f"    if may_stash; then copy=$(ask {SHIELD}); fi",
        '    shielded "$@" || code=$?',
        "    forget",
        "fi",
        *_gone(name, words, "exit 1"),
        "ask || code=$?",
        "exit $code",
    ]


def _furnish(words: Sequence[str]) -> list[str]:
    """The other hook runs as without Holdfast. Ours acts only if there was no commit before, as
    in a worktree that was just made."""
    return [
        "code=0 copy=",
        'if [ -x "$before" ]; then',
        f"    if may_stash && [ -x {quoted(words[0])} ]; then copy=$(ask {SHIELD}); fi",
        '    shielded "$@" || code=$?',
        "    forget",
        "fi",
        'case $1 in "" | *[!0]*) exit $code ;; esac',
        f"[ -f .git ] && [ -x {quoted(words[0])} ] || exit $code",
        "ask",
        "exit $code",
    ]


def _pass(words: Sequence[str]) -> list[str]:
    """A hook that only passes on, to one that may set the work of others aside."""
    program = quoted(words[0])
    return [
        '[ -x "$before" ] || exit 0',
        "copy=",
        f"if may_stash && [ -x {program} ]; then copy=$(ask {SHIELD} </dev/null); fi",
        '[ -n "$copy" ] || { run "$@"; exit $?; }',
        'shielded "$@"',
        "code=$?",
        "forget",
        "exit $code",
    ]


def _gone(name: str, words: Sequence[str], end: str) -> list[str]:
    """Stop if our program is missing: without it the holders are unknown."""
    return [
        f"if [ ! -x {quoted(words[0])} ] || [ ! -f {quoted(words[-1])} ]; then",
        f'    echo "holdfast: the {name} hook cannot run: its program is missing" >&2',
        f"    echo {quoted(f'  -> run holdfast init to rewrite it (it was {words[0]})')} >&2",
        f"    {end}",
        "fi",
    ]


# The other hook


def _once(before: bytes) -> list[str]:
    """Break the endless loop of a hook that starts us again."""
    if _by_name(before):
        # It started itself again, which is us: run it under its present name.
        return ['[ "${HOLDFAST_GIT_BEFORE-}" != "$before" ] || exec "$before" "$@"']
    if is_made_by_pre_commit(before):
        # It was installed again in front of us and runs us: we must not run it in turn.
        return [f"case $0 in *{LEGACY}) before= ;; esac"]
    return []


def _chained(before: bytes) -> str:
    """The shell text that runs the hook that was there."""
    shell = _by_name(before)
    if not shell:
        return '"$before" "$@"'
    # Sourced by a shell that has our name, which was its own.
    run = _command((*shell, "-c", '. "$HOLDFAST_GIT_BEFORE"'))
    return f'HOLDFAST_GIT_BEFORE=$before {run} "$0" "$@"'


def _by_name(text: bytes) -> list[str]:
    """The shell for a hook that must run under the name it had; empty if it need not."""
    return (_interpreter(text) or []) if _reads_its_name(text) else []


def _interpreter(text: bytes) -> list[str] | None:
    """The interpreter from the first line, if it is a shell."""
    if not text.startswith(b"#!"):
        return ["sh"]  # as git does, and every shell
    words = os.fsdecode(text[2:].split(b"\n", 1)[0]).split()
    names = [os.path.basename(word) for word in words if not word.startswith("-")]
    return words if any(name in _SHELLS for name in names[:2]) else None


def _reads_its_name(text: bytes) -> bool:
    """Whether a hook chooses by its own name what to do."""
    if b"\0" in text:  # a binary: it cannot be told, and they are rare
        return False
    import re

    return bool(
        re.search(
            rb"basename\b[^\n]{0,20}(?:\$0|\$PROGRAM_NAME|argv\[0\]|__FILE__|__file__)"
            rb"|\$\{0##"  # the same in the shell's own syntax
            rb"|\$\(dirname [^)\n]*\$0[^)\n]*\)/h\"",  # husky's, which leaves it to another file
            text,
        )
    )


# A shell's words


def quoted(word: str) -> str:
    """A word quoted for a shell."""
    return "'" + word.replace("'", "'\\''") + "'"


def _command(words: Sequence[str]) -> str:
    return " ".join(map(quoted, words))


def _sum(rest: bytes) -> bytes:
    from binascii import crc32

    return b"%08x" % crc32(rest)
