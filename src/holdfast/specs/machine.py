"""The id of this machine: its host name and a unique part, created once and kept.

The id belongs to the user, and is kept in the user's settings folder. If another program keeps an
id beside the specs, that one is used there, so that both programs count as one machine; an id that
came with the repository from another host is ignored. Nothing is written beside the specs.

So a machine may have several ids in a workspace: the user's, and those beside the specs, some of
them from versions that kept their ids there. All of them are recognised, and the first is used.

What this does not promise: to detect that the machine was renamed. Then an id beside the specs
looks like that of another machine, and its old locks must be removed by force.
"""

from __future__ import annotations

import os
import sys

from holdfast.manager.clock import SystemClock
from holdfast.manager.owners.identity import user_name
from holdfast.specs import lockfile_codec, spec_files, staleness
from holdfast.specs.lockfile import DAMAGED, Patience, trouble
from holdfast.specs.results import MachineId, MachineInfo
from holdfast.specs.spec_names import HOMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.ledger_time import Clock

FILE = "machine-id.json"
NO_HOST = "unknown-host"


class MachineIdentifier:
    """The id of this machine, kept in one folder."""

    __slots__ = ("_clock", "_file", "_known")

    def __init__(self, config_dir: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._file = f"{os.path.abspath(os.fspath(config_dir))}/{FILE}"
        self._clock = clock or SystemClock()
        self._known: MachineId | None = None

    def get_machine_id(self) -> MachineId:
        """The id of this machine; the first caller creates it, and all others get the same."""
        patience = Patience()
        while (found := self.known()) is None:
            try:
                self._make(patience)
            except OSError as error:
                raise trouble(error, self._file) from error
        return found

    def _make(self, patience: Patience) -> None:
        folder = os.path.dirname(self._file)
        os.makedirs(folder, exist_ok=True)
        with spec_files.FolderLock(folder):
            seen = spec_files.look(self._file)
            if seen is None:
                spec_files.publish(
                    self._file, lockfile_codec.machine_bytes(self.generate_machine_id())
                )
                return
            if _read(seen) is None and patience.is_damaged(seen):
                spec_files.set_aside(self._file, seen, DAMAGED)
                return
        patience.wait(self._file)

    def generate_machine_id(self) -> MachineId:
        """A new id. It has no effect until it is stored."""
        from uuid import uuid4

        name = host_name()
        now = staleness.written(self._clock.read().wall // 1000)
        return MachineId(id=f"{name}-{uuid4()}", hostname=name, created_at=now)

    def get_machine_info(self) -> MachineInfo:
        """The machine for people to read."""
        machine = self.get_machine_id()
        return MachineInfo(
            id=machine.id, hostname=machine.hostname, created_at=machine.created_at,
            platform=sys.platform, user=user_name(),
        )  # fmt: skip

    def known(self) -> MachineId | None:
        """The id if this machine has one; creates and writes nothing."""
        if self._known is None:
            try:
                seen = spec_files.look(self._file)
            except NotADirectoryError:
                return None
            except OSError as error:
                raise trouble(error, self._file) from error
            self._known = None if seen is None else _read(seen)
        return self._known


class WorkspaceMachine:
    """This machine in one workspace: its ids beside the specs, and the user's id."""

    __slots__ = ("_beside", "_user")

    def __init__(self, beside: Sequence[MachineIdentifier], user: MachineIdentifier) -> None:
        self._beside = tuple(beside)
        self._user = user

    def get_machine_id(self) -> MachineId:
        """The id that is used here; the user's is created if there is none yet."""
        return self._used().get_machine_id()

    def get_machine_info(self) -> MachineInfo:
        """The machine for people to read."""
        return self._used().get_machine_info()

    def known_ids(self) -> set[str]:
        """All ids of this machine here; creates and writes nothing."""
        known = (one.known() for one in (*self._ours(), self._user))
        return {machine.id for machine in known if machine is not None}

    def _used(self) -> MachineIdentifier:
        return next(self._ours(), self._user)

    def _ours(self) -> Iterator[MachineIdentifier]:
        for one in self._beside:
            known = one.known()
            if known is not None and known.hostname == host_name():
                yield one


def _read(seen: spec_files.Seen) -> MachineId | None:
    return None if seen.data is None else lockfile_codec.machine_of(seen.data)


def machine_of(workspace: str, environ: Mapping[str, str]) -> WorkspaceMachine:
    """This machine in a workspace; see the top of this file."""
    beside = [MachineIdentifier(f"{workspace}/{home}/config") for home in HOMES]
    return WorkspaceMachine(beside, MachineIdentifier(user_config(environ)))


def user_config(environ: Mapping[str, str]) -> str:
    """The folder of a user's settings for this program."""
    if os.name == "nt":
        return f"{environ.get('APPDATA') or os.path.expanduser('~')}/holdfast"
    home = environ.get("XDG_CONFIG_HOME", "")
    return f"{home if home.startswith('/') else os.path.expanduser('~/.config')}/holdfast"


def host_name() -> str:
    """The host name of this machine, or a substitute if it has none."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return name.strip() or NO_HOST
