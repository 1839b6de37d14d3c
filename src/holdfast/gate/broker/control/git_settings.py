"""Which settings make git execute something, or read settings from elsewhere.

An agent may set a branch's remote or a user's name. A setting that names a program, a shell line, a
folder of hooks or another settings file takes effect in the next git command outside the sandbox.
"""

from __future__ import annotations

import re
import subprocess

from holdfast.gate.git.git_files import outside

_SECONDS = 10.0
#: Returned in place of a setting if git cannot read any.
UNREADABLE = "git cannot parse the new content"

#: Matches the whole name of a setting, in lower case except for the middle part.
_DANGEROUS = re.compile(
    r"""
      core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand
              |attributesfile|excludesfile|worktree)
    | include\.path | includeif\..*\.path
    | alias\..* | pager\..*
    | hook\..*
    | filter\..*\.(?:clean|smudge|process)
    | diff\.external | diff\..*\.(?:command|textconv)
    | merge\..*\.driver | (?:merge|diff)tool\..*\.(?:cmd|path) | (?:merge|diff)\.(?:gui)?tool
    | credential\.(?:.*\.)?helper
    | gpg\.(?:.*\.)?(?:program|defaultkeycommand) | user\.signingkey
    | sequence\.editor | interactive\.difffilter | browser\..* | man\..*\.(?:cmd|path)
    | web\.browser | instaweb\..* | help\.browser
    | remote\..*\.(?:uploadpack|receivepack|vcs|proxy) | url\..*\.(?:pushinsteadof|insteadof)
    | protocol\..* | (?:http|https)\..* | ssh\.variant
    | uploadpack\.packobjectshook | receive\..* | transfer\..*
    | sendemail\..* | imap\..* | trailer\..*\.(?:command|cmd) | init\.templatedir
    | submodule\..*\.update | submodule\.recurse | submodule\.alternate.*
    | safe\..* | extensions\.partialclone | tar\..*\.command | gc\..*(?:cmd|hook)
    | lfs\..*\.(?:path|clean|smudge)
    | completion\.commands | guitool\..* | gitcvs\..* | difftool\..* | mergetool\..*
    """,
    re.VERBOSE | re.DOTALL,
)
#: Harmless because of their values.
_HARMLESS = re.compile(r"submodule\..*\.update\n(?:checkout|rebase|merge|none)", re.DOTALL)
#: The location of its work tree, which git itself sets for a submodule.
_OF_MODULES = re.compile(r"core\.worktree\n.*", re.DOTALL)


def danger(old: bytes, new: bytes, *, of_module: bool = False) -> str:
    """The first setting that may not be changed like this; empty if there is none. `of_module`: the
    repository is that of a submodule."""
    before, after = _settings(old), _settings(new)
    if after is None:
        return UNREADABLE
    for setting in after:
        if before is not None and setting in before:
            continue
        name = setting.partition("\n")[0]
        if of_module and _OF_MODULES.fullmatch(setting):
            continue
        if _DANGEROUS.fullmatch(name) and not _HARMLESS.fullmatch(setting):
            return name
    gone = [one for one in before or () if one not in after]
    for setting in gone:  # such a setting leads to our own folder of hooks
        name = setting.partition("\n")[0]
        if name.startswith(("include.", "includeif.", "core.hookspath")):
            return name
    return ""


def _settings(text: bytes) -> list[str] | None:
    """All settings, each with its value on the next line; None if git cannot read them."""
    if not text.strip():
        return []
    try:
        done = subprocess.run(
            ["git", "config", "--file", "-", "--null", "--list", "--no-includes"],
            input=text, capture_output=True, check=False, timeout=_SECONDS, cwd="/",
            env=outside(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return [one.decode("utf-8", "surrogateescape") for one in done.stdout.split(b"\0") if one]
