"""The hint under an unknown command or option: the nearest known one.

Imported only when a line is wrong, since a lock must not pay for it.
"""

from __future__ import annotations

from difflib import get_close_matches

from holdfast.cli.commands import COMMANDS, FAMILIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.commands import Option

#: What other programs call the same thing.
_OTHER_WORDS = {
    "acquire": "lock", "add": "lock", "claim": "lock", "hold": "lock", "take": "lock",
    "delete": "unlock", "drop": "unlock", "free": "unlock", "release": "unlock", "rm": "unlock",
    "list": "status", "locks": "status", "ls": "status", "show": "status",
    "events": "log", "history": "log", "tail": "log --follow",
    "extend": "renew", "refresh": "renew",
    "exec": "run", "with": "run", "start": "dispatch", "tasks": "dispatch",
    "install": "init", "setup": "init", "uninstall": "init --undo", "remove": "init --undo",
    "disable": "off", "enable": "on", "unblock": "resume", "continue": "resume",
    "board": "serve", "ui": "serve", "web": "serve", "watch": "top", "monitor": "top",
    "clean": "reap", "gc": "reap", "prune": "trim", "whois": "whoami", "completions": "completion",
    "version": "--version",
}  # fmt: skip


def command_hint(name: str) -> str:
    """The hint under `holdfast NAME`, which is no command."""
    known = [word for command in COMMANDS for word in (command.name, *command.aliases)]
    known += [family.name for family in FAMILIES]
    near = _nearest(name, [*known, *_OTHER_WORDS])
    meant = _OTHER_WORDS.get(near, near)
    return f"did you mean {meant}?" if meant else "holdfast help lists the commands"


def relative_hint(name: str, family: str, known: Iterable[str]) -> str:
    """The hint under `holdfast spec NAME`, which is no command of that family."""
    meant = _nearest(name, known)
    return f"did you mean {meant}?" if meant else f"holdfast help {family} lists its commands"


def option_hint(word: str, options: Iterable[Option]) -> str:
    """The hint under an option that the command does not have. `word` may be a path that was
    meant."""
    known = [f"--{option.name}" for option in options if option.name]
    meant = _nearest(word.partition("=")[0], known)
    if meant:
        return f"did you mean {meant}?"
    return f"there is {', '.join(known)}; write ./{word} or put -- before it if it is a path"


def _nearest(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), list(known), 1)
    return near[0] if near else ""
