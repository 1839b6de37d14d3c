"""Which handler knows what a command writes, and which commands write nothing.

A command that is not listed here may do anything: a reading that contains it is unsure.
"""

from __future__ import annotations

from holdfast.gate.shell.command_calls import run
from holdfast.gate.shell.programs.builtins import BUILTINS, prefix
from holdfast.gate.shell.programs.editors import EDITORS
from holdfast.gate.shell.programs.file_tools import FILES
from holdfast.gate.shell.programs.git_verbs import git
from holdfast.gate.shell.programs.operands import scan
from holdfast.gate.shell.programs.patch_tools import PATCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.command_calls import Call, Handler

HARMLESS = frozenset([
    "ls", "dir", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "zgrep", "rg", "ag",
    "ack", "fd", "fdfind", "locate", "wc", "uniq", "cut", "tr", "paste", "join", "comm", "column",
    "nl", "tac", "rev", "fold", "fmt", "expand", "unexpand", "diff", "cmp", "colordiff", "sdiff",
    "stat", "file", "du", "df", "date", "cal", "which", "whereis", "type", "whoami", "id",
    "groups", "users", "who", "uname", "hostname", "uptime", "free", "ps", "pgrep", "top", "lsof",
    "jobs", "kill", "pkill", "killall", "fg", "bg", "disown", "history", "fc", "help", "man",
    "realpath", "readlink", "printenv", "jq", "gron", "xxd", "hexdump", "od", "strings", "nm",
    "objdump", "readelf", "ldd", "otool", "md5sum", "sha1sum", "sha256sum", "sha512sum", "shasum",
    "md5", "cksum", "b2sum", "base64", "base32", "expr", "bc", "dc", "factor", "yes", "tput",
    "clear", "reset", "tty", "stty", "nproc", "arch", "lscpu", "lsblk", "mount", "ip", "ifconfig",
    "netstat", "ss", "ping", "dig", "nslookup", "host", "nc", "mkfifo", "mktemp", "rmdir",
    "chmod", "chown", "chgrp", "chattr", "setfacl", "getfacl", "xattr", "sync", "logger", "tsort",
    "shuf", "numfmt", "pathchk", "getconf", "locale", "bat", "batcat", "eza", "exa", "tokei",
    "cloc", "scc", "delta", "pr", "look", "apropos", "whatis", "getent", "lsb_release", "sw_vers",
    "zcat", "bzcat", "xzcat", "zless", "bind", "complete", "compgen", "dirs", "times", "caller",
    "enable", "suspend", "logout", "pygmentize", "highlight", "ctags-query", "lscpu", "vmstat",
    "iostat", "dmesg", "journalctl", "pstree", "watchman-wait", "nvidia-smi", "say", "pbpaste",
    "pbcopy", "xclip", "open", "xdg-open", "tldr", "cowsay", "fortune", "figlet",
])  # fmt: skip

#: Commands that write no file of the tree but change something else.
ALTERING = frozenset([
    "mkdir", "rmdir", "mkfifo", "mktemp", "chmod", "chown", "chgrp", "chattr", "setfacl", "xattr",
    "mount", "kill", "pkill", "killall", "open", "xdg-open", "pbcopy", "xclip", "logger", "gh",
    "nc", "journalctl", "ip", "ifconfig", "hostname", "date", "dmesg", "sync",
])  # fmt: skip

#: With these words `gh` writes no file of the tree; with others it may.
GH_LOOKS = frozenset(["view", "list", "status", "diff", "checks", "watch", "comment", "create"])


def gh(call: Call) -> str | None:
    words = [arg.text for arg in call.args]
    if words[:1] == ["api"] or (len(words) > 1 and words[1] in GH_LOOKS and words[0] != "repo"):
        return None
    if words[:1] not in (["auth"], ["search"], ["--version"]):
        call.walk.doubt()
    return None


def runner(*verbs: str, unsure: bool = False) -> Handler:
    """A package manager that runs a tool: `poetry run black x.py`."""

    def handler(call: Call) -> str | None:
        words = call.args
        if words and words[0].text in verbs:
            if unsure:
                call.walk.doubt()
            rest = scan(words[1:], first_ends=True).operands
            return run(call.again(rest)) if rest else None
        call.walk.doubt()
        return None

    return handler


def version_only(call: Call) -> str | None:
    """A tool that may do anything, except when it only prints its version."""
    if [arg.text for arg in call.args] not in (["--version"], ["-v"], ["-V"], ["version"]):
        call.walk.doubt()
    return None


def holdfast(call: Call) -> str | None:
    """Holdfast's own commands write only held files; commands that `run` starts may write any."""
    if call.args and call.args[0].text == "run":
        call.walk.doubt()
    return None


HANDLERS: dict[str, Handler] = {
    **BUILTINS, **FILES, **EDITORS, **PATCHES,
    "git": git, "gh": gh, "holdfast": holdfast,
    "poetry": runner("run"), "pipenv": runner("run"), "bundle": runner("exec"),
    "hatch": runner("run"), "pdm": runner("run"), "pnpm": runner("exec", "dlx"),
    "yarn": runner("exec", "dlx"), "uv": runner("run", unsure=True),
    "rtk": prefix(),
    **dict.fromkeys(
        ("node", "npm", "cargo", "go", "rustup", "make", "cmake", "java", "ruby", "php", "docker",
         "pip", "pip3", "deno", "bun"), version_only),
}  # fmt: skip
