"""Whose lock is it, when somebody types a command?

Never the command's own: it ends at once, and its lock would end with it. Nor that of the shell
that an agent starts for one call. So a lock that is taken from the command line belongs, in this
order, to

1. whoever is named with `--holder`; its locks end by their ttl alone,
2. the runner that is named in HOLDFAST_HOLDER,
3. the agent client that the command runs under, the nearest if there are several,
4. the session of the terminal,
5. the program that started it, past all shells and wrappers.

An agent has its whole id here, so that no two are called the same. The short name that people know
it by is the ledger's (`gate.introducing`).

What this does not promise: to tell apart two agents that nothing tells apart, such as two of an
unknown kind in one terminal. Give them names. Without /proc (macOS, Windows) only 1 to 4 work,
and clients that do not name themselves in the environment are not recognised.
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
    """Who is asking, and in one sentence how that was found out."""

    __slots__ = ("holder", "how")

    def __init__(self, holder: Holder, how: str) -> None:
        self.holder: Final = holder
        self.how: Final = how


def whoami(environ: Mapping[str, str], *, holder: str | None = None) -> Self:
    """Whose lock it is that this command takes."""
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
        or _nobody()
    )


def process_holder(id: str) -> Holder:
    """The holder of that name inside this process: two processes of one name exclude each other."""
    key = _own_key(checked_id(id, "holder"))
    return Holder(id=id, key=key, witness=own_witness(), user=user_name())


def runner_holder(id: str, runner: Witness | None = None) -> tuple[Holder, dict[str, str]]:
    """This process, or another, as a runner of commands, and what to put into their environment.

    Whatever they take belongs to the same holder, which lives as long as one of them does.
    """
    own = runner or own_witness()
    owner = f"{own.pid}:{own.start}:{own.boot}:{own.namespace}"
    # Marked by the process, not by the name: two runners may have been given the same name.
    mark = f"{OWNER_VARIABLE}={owner}"
    key = _process_key(checked_id(id, "holder"), own)
    made = Holder(id=id, key=key, witness=own, marks=(mark,), user=user_name())
    return made, {HOLDER_VARIABLE: id, OWNER_VARIABLE: owner}


def checked_id(id: str, source: str) -> str:
    """The id, if it can stand in a line of the log and in an environment."""
    if id.isprintable() and id == id.strip() and 1 <= len(id) <= HOLDER_CHARACTERS_MAX:
        return id
    raise BadKeyError(
        f"{id[:80]!r} cannot be the name of a holder (from {source})",
        hint=f"give 1 to {HOLDER_CHARACTERS_MAX} printable characters, no line breaks, "
        "no leading or trailing spaces",
        holder=id[:80].encode("utf-8", "backslashreplace").decode(),
    )


def user_name() -> str:
    """The name of the user that this process runs as, or what stands for it."""
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
    """The runner that the variable names: `pid:start:boot:namespace`, or `pid:start` alone.

    The long form is believed also when that process is dead, for its children may have outlived
    it, or out of sight, for a sandbox hides it but keeps the variable. The short form must name a
    process that lives here. Another boot means another machine, where the numbers mean others.
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
        # An agent that another agent started inherits the variables of that one.
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
    if name == "codex":  # a sub-agent has the session of its parent and a thread of its own
        thread = environ.get(CODEX_THREAD_VARIABLE, "")
        session = session or thread
        agent = thread if thread != session else ""
    if plain(session) != session or plain(agent) != agent:  # others might be made into the same
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
    """The process of a session: the one it names, if that can be it, else the nearest of that name.

    In a sandbox with its own pids the number may mean somebody else, so it must be an ancestor, or
    at least an older process of the same user.
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

    A session may have been made for one call, as `script`, `sudo`, `setsid` and agents do. Then
    nothing in it lasts, and the session around it is the one, unless a program comes first.
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
    """What people call a terminal, by its number in /proc; empty for none, and for odd ones."""
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return ""


def _terminal_by_system() -> Self | None:
    """The terminal's session as far as the system tells without /proc."""
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
    # A shell with a single command and nobody above it ends as soon as the command does.
    witness = None if found.is_shell and found.task == "-c" else found.witness
    made = Holder(id=id, key=_process_key(id, found.witness), witness=witness, user=user)
    how = f"the program that started this command ({found.name}, pid {found.pid})"
    return Self(made, how if witness else f"{how}; its locks end by their ttl alone")


def _nobody() -> Self:
    """Somebody about whom nothing is known but the session, if it is not one of our own."""
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
    # Without a start time, a later process with the same pid would inherit.
    return key if own.start else f"{key}:{_born(own.pid)}"


def _process_key(id: str, witness: Witness) -> str:
    # It is written with every grant: short, and still unlike any other process of this machine.
    space = "" if witness.namespace == NAMESPACE_FIRST else f"[{witness.namespace}]"
    place = f"{witness.boot[:8]}{space}"
    return f"{id}@{place}:{witness.pid}:{witness.start}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _host_name() -> str:
    if hasattr(os, "uname"):
        return plain(os.uname().nodename)
    return plain(os.environ.get("COMPUTERNAME", ""))
