"""The holder of a lock that is taken at the command line.

It cannot be the command itself, which ends immediately, nor the shell that an agent starts for one
call: the lock would end with them. So the lock belongs to the first of these that exists:

1. the name given with `--holder`; its locks end by their ttl alone,
2. the runner named in HOLDFAST_HOLDER,
3. the agent client that the command runs under, the nearest if there are several,
4. the session of the terminal,
5. the program that started the command, past all shells and wrappers.

An agent has its full id here, so that no two have the same name. The ledger gives it the short name
that people see.

Agents that differ in nothing are one holder, such as two of an unknown kind in one terminal; give
them names. Without /proc (macOS, Windows) only 1 to 4 work, and clients that do not name themselves
in the environment are not recognised.
"""

from __future__ import annotations

import os
from time import time_ns

from holdfast.core.errors import BadKeyError
from holdfast.core.model import Holder, Value, Witness, agent_key
from holdfast.manager.owners.liveness import (
    NAMESPACE_FIRST,
    own_witness,
    sees_processes,
    witness_of,
)
from holdfast.manager.owners.processes import (
    CLIENTS,
    Process,
    ancestors,
    plain,
    process_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

HOLDER_CHARACTERS_MAX = 200

HOLDER_VARIABLE = "HOLDFAST_HOLDER"
OWNER_VARIABLE = "HOLDFAST_OWNER"
CLAUDE_PID_VARIABLE = "CLAUDE_PID"
CLAUDE_SESSION_VARIABLE = "CLAUDE_CODE_SESSION_ID"
CODEX_THREAD_VARIABLE = "CODEX_THREAD_ID"


class Self(Value):
    """The holder for a command, and one sentence about how it was determined."""

    __slots__ = ("holder", "how")

    def __init__(self, holder: Holder, how: str) -> None:
        self.holder: Final = holder
        self.how: Final = how


def whoami(environ: Mapping[str, str], *, holder: str | None = None) -> Self:
    """The holder for the locks of this command."""
    if holder is not None:
        id = checked_id(holder, "--holder")
        return Self(Holder(id=id, user=user_name()), "as given; its locks end by their ttl alone")
    if environ.get(HOLDER_VARIABLE):
        return _runner(environ)
    above = ancestors() if sees_processes() else []
    return (
        _client(environ, above)
        or (_terminal(above) if sees_processes() else _terminal_by_system())
        or _program(above)
        or _unknown()
    )


def process_holder(id: str) -> Holder:
    """The holder of that name in this process; the same name in another process is another one."""
    key = _own_key(checked_id(id, "holder"))
    return Holder(id=id, key=key, witness=own_witness(), user=user_name())


def runner_holder(id: str, runner: Witness | None = None) -> tuple[Holder, dict[str, str]]:
    """This process, or another, as a runner of commands, and the variables for their environment.

    All locks that the commands take belong to one holder, which lives as long as any of them.
    """
    own = runner or own_witness()
    owner = f"{own.pid}:{own.start}:{own.boot}:{own.namespace}"
    # The mark names the process, because two runners may have the same name.
    mark = f"{OWNER_VARIABLE}={owner}"
    key = _process_key(checked_id(id, "holder"), own)
    made = Holder(id=id, key=key, witness=own, marks=(mark,), user=user_name())
    return made, {HOLDER_VARIABLE: id, OWNER_VARIABLE: owner}


def checked_id(id: str, source: str) -> str:
    """The id, if it is valid in a line of the log and in an environment."""
    if id.isprintable() and id == id.strip() and 1 <= len(id) <= HOLDER_CHARACTERS_MAX:
        return id
    raise BadKeyError(
        f"{id[:80]!r} cannot be the name of a holder (from {source})",
        hint=f"give 1 to {HOLDER_CHARACTERS_MAX} printable characters, no line breaks, "
        "no leading or trailing spaces",
        holder=id[:80].encode("utf-8", "backslashreplace").decode(),
    )


def user_name() -> str:
    """The name of the user that this process runs as, or a substitute for it."""
    global _user
    uid = os.getuid() if hasattr(os, "getuid") else 0
    if _user is None or _user[0] != uid:
        _user = (uid, _user_name(uid))
    return _user[1]


def _user_name(uid: int) -> str:
    if os.name != "posix":
        return plain(os.environ.get("USERNAME", "")) or "user"
    import pwd

    try:
        return plain(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return plain(os.environ.get("USER", "")) or str(uid)


# The runner


def _runner(environ: Mapping[str, str]) -> Self:
    id = checked_id(environ[HOLDER_VARIABLE], HOLDER_VARIABLE)
    owner = environ.get(OWNER_VARIABLE, "")
    witness = _owner(owner)
    marks = (f"{OWNER_VARIABLE}={owner}",) if witness else ()
    how = f"from {HOLDER_VARIABLE}"
    how += f" (runner with pid {witness.pid})" if witness else "; its locks end by their ttl alone"
    key = _process_key(id, witness) if witness else id
    return Self(Holder(id=id, key=key, witness=witness, marks=marks, user=user_name()), how)


def _owner(text: str) -> Witness | None:
    """The runner in the variable: `pid:start:boot:namespace`, or just `pid:start`.

    The long form is accepted even if that process is dead, because its children may outlive it, or
    not visible, because a sandbox hides it but keeps the variable. The short form must name a live
    process. Another boot means another machine, where the numbers belong to other processes.
    """
    parts = text.split(":", 3)
    if len(parts) < 2 or not (_is_number(parts[0]) and _is_number(parts[1])):
        return None
    pid, start = int(parts[0]), int(parts[1])
    if len(parts) == 4 and parts[2]:
        own = own_witness()
        if parts[2] != own.boot:
            return None
        return Witness(
            host=own.host, boot=own.boot, namespace=plain(parts[3]), pid=pid, start=start
        )
    found = witness_of(pid)
    return found if found is not None and found.start == start else None


# The agent client


def _client(environ: Mapping[str, str], above: list[Process]) -> Self | None:
    claude_pid = environ.get(CLAUDE_PID_VARIABLE, "")
    claude_session = environ.get(CLAUDE_SESSION_VARIABLE, "")
    for process in above:
        # An agent that was started by another agent inherits its variables.
        name = "claude" if str(process.pid) == claude_pid else process.client
        if name and not (name == "claude" and claude_session):
            return _client_process(name, process, environ)
        if name:
            break
    return _claude(claude_session, claude_pid, above) if claude_session else None


def _client_process(name: str, process: Process, environ: Mapping[str, str]) -> Self:
    variable = next(row[3] for row in CLIENTS if row[0] == name)
    session = environ.get(variable, "") if variable else ""
    agent = ""
    if name == "codex":  # a sub-agent has its parent's session and its own thread
        thread = environ.get(CODEX_THREAD_VARIABLE, "")
        session = session or thread
        agent = thread if thread != session else ""
    if (
        plain(session) != session or plain(agent) != agent
    ):  # different ids could become the same text
        session = agent = ""
    witness = process.witness
    id = f"{name}:{session or process.pid}"
    made = Holder(
        id=f"{id}/{agent}" if agent else id,
        key=agent_key(name, session or f"{process.pid}.{process.start}", agent),
        witness=witness, marks=(f"{variable}={session}",) if session else (),
        user=user_name(), client=name, session=session, agent=agent,
        parent=agent_key(name, session) if agent else "",
    )  # fmt: skip
    return Self(made, f"the {name} session with pid {process.pid}")


def _claude(session: str, pid: str, above: list[Process]) -> Self:
    checked_id(session, CLAUDE_SESSION_VARIABLE)
    witness = _claude_witness(pid, above)
    made = Holder(
        id=f"claude:{session}", key=agent_key("claude", session), witness=witness,
        marks=(f"{CLAUDE_SESSION_VARIABLE}={session}",) if witness else (),
        user=user_name(), client="claude", session=session,
    )  # fmt: skip
    seen = f"(pid {witness.pid})" if witness else "(not in sight; its locks end by their ttl alone)"
    return Self(made, f"the Claude Code session {session} {seen}")


def _claude_witness(pid: str, above: list[Process]) -> Witness | None:
    """The process of a session: the one that it names, if plausible, or else the nearest client.

    In a sandbox with its own pids the number may belong to another process, so it must be an
    ancestor, or at least an older process of the same user.
    """
    for process in above:
        if str(process.pid) == pid:
            return process.witness
    own = own_witness()
    if _is_number(pid) and int(pid) != own.pid and _is_ours(int(pid)):
        found = witness_of(int(pid))
        if found is not None and found.start <= own.start:
            return found
    return next((process.witness for process in above if process.client == "claude"), None)


def _is_ours(pid: int) -> bool:
    if not sees_processes():
        return True
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


# The terminal


def _terminal(above: list[Process]) -> Self | None:
    """The first lasting process of the session, from its leader down to us.

    A session may have been created for one call, as by `script`, `sudo`, `setsid` and agents. Then
    none of its processes lasts, and the outer session counts, unless a program comes first.
    """
    own = process_of(os.getpid())
    chain = [*((own,) if own else ()), *above]
    at = 0
    while at < len(chain):
        inner = chain[at]
        if at and inner.is_program:
            return None
        if not inner.terminal:
            at += 1
            continue
        inside = [process for process in chain[at:] if process.session == inner.session]
        for process in (process_of(inner.session), *reversed(inside)):
            if process is not None and process.pid != os.getpid() and process.lasts:
                return _terminal_of(process, inner)
        at += len(inside)
    return None


def _terminal_of(process: Process, inner: Process) -> Self:
    user = user_name()
    id = f"{user}@{terminal_name(inner.terminal) or _host_name()}:{inner.session}"
    role = "session leader " if process.pid == inner.session else ""
    made = Holder(id=id, key=_process_key(id, process.witness), witness=process.witness, user=user)
    return Self(made, f"this terminal ({role}{process.name}, pid {process.pid})")


def terminal_name(number: int) -> str:
    """The name of a terminal, from its number in /proc; empty for none and for unknown kinds."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return ""


def _terminal_by_system() -> Self | None:
    """The terminal's session, as far as the system reports it without /proc."""
    if not hasattr(os, "getsid"):
        return None
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        session = os.getsid(0)
    except OSError:
        return None
    witness = witness_of(session) if session not in (0, os.getpid()) else None
    if witness is None:
        return None
    user = user_name()
    id = f"{user}@{_host_name()}:{session}"
    made = Holder(id=id, key=_process_key(id, witness), witness=witness, user=user)
    return Self(made, f"this terminal (session leader with pid {session})")


# The program that started the command


def _program(above: list[Process]) -> Self | None:
    programs = [process for process in above if not process.is_init]
    if not programs:
        return None
    found = next((process for process in programs if process.is_program), programs[-1])
    user = user_name()
    id = f"{user}@{found.name}:{found.pid}"
    # A shell with a single command and no program above it ends as soon as the command does.
    witness = None if found.is_shell and found.task == "-c" else found.witness
    made = Holder(id=id, key=_process_key(id, found.witness), witness=witness, user=user)
    how = f"the program that started this command ({found.name}, pid {found.pid})"
    return Self(made, how if witness else f"{how}; its locks end by their ttl alone")


def _unknown() -> Self:
    """A holder known only by its session, if that is not our own."""
    user = user_name()
    session = os.getsid(0) if hasattr(os, "getsid") else os.getppid()
    if session in (0, os.getpid()):
        id = f"{user}@{_host_name()}:{os.getpid()}"
        key = _own_key(id)
    else:
        id = f"{user}@{_host_name()}:{session}"
        key = f"{id}@{own_witness().boot}"
    how = "no lasting process was found above this command; its locks end by their ttl alone"
    return Self(Holder(id=id, key=key, user=user), how)


# Small things

_birth: tuple[int, int] = (0, 0)
_user: tuple[int, str] | None = None


def _born(pid: int) -> int:
    global _birth
    if _birth[0] != pid:
        _birth = (pid, time_ns())
    return _birth[1]


def _own_key(id: str) -> str:
    own = own_witness()
    key = _process_key(id, own)
    # Without a start time, a later process with the same pid would be the same holder.
    return key if own.start else f"{key}:{_born(own.pid)}"


def _process_key(id: str, witness: Witness) -> str:
    # It is written with every grant, so it is short, but unique on this machine.
    space = "" if witness.namespace == NAMESPACE_FIRST else f"[{witness.namespace}]"
    place = f"{witness.boot[:8]}{space}"
    return f"{id}@{place}:{witness.pid}:{witness.start}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _host_name() -> str:
    if hasattr(os, "uname"):
        return plain(os.uname().nodename)
    return plain(os.environ.get("COMPUTERNAME", ""))
