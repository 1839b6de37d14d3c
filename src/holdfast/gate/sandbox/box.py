"""A sandbox around one command: set up, entered by a child, removed again."""

from __future__ import annotations

import os

from holdfast.core.keys import kind
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.sandbox import SOCKET_VARIABLE, SandboxError
from holdfast.gate.sandbox.gaps.denied_writes import DeniedWrites
from holdfast.gate.sandbox.gaps.gap_records import GapRecorder
from holdfast.gate.sandbox.kernel.landlock import SCOPE_SIGNAL, Ruleset, support
from holdfast.gate.sandbox.kernel.open_places import OpenPlaces, remove_untouched
from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders
from holdfast.gate.sandbox.runner.scratch_folder import sweep
from holdfast.gate.sandbox.starting.restricted_start import start
from holdfast.manager.files.control_files import ControlFileError
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.files.realpath import plain
from holdfast.manager.ledger_location import folder_of, for_agents_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.gate.sandbox.kernel.landlock import Support
    from holdfast.gate.sandbox.runner.ledger_socket import Question
    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager

#: Where programs look for the folder for temporary files.
_TEMPORARY_VARIABLES = ("TMPDIR", "TMP", "TEMP")


def demand(instead: str = "") -> Support:
    """What the kernel can do. Raises SandboxError if that is not enough; `instead` is an
    alternative for the hint."""
    found = support()
    if not found.is_enough:
        raise SandboxError(
            f"the sandbox cannot work here: {found.lacks}",
            hint=f"{instead}run it with --sandbox=best-effort to use what this kernel offers",
            abi=found.abi,
        )
    return found


class Sandbox:
    """What one command may write, and everything that this needs. Created once the grant exists.

    Call `start` once, then `serve`, and `close` on every exit. A caller that polls anyway may wait
    with `serve` until `first_request` is readable: few commands send a request.
    """

    def __init__(
        self,
        manager: LockManager,
        grant: LockGrant,
        *,
        abi: int,
        write: Iterable[str] = (),
        git: bool = False,
        questions: Mapping[str, Question] | None = None,
        notice: bool = False,
        runner_folders: RunnerFolders | None = None,
    ) -> None:
        """With `notice`, writes that the command tries and may not do are detected: see
        `denied_writes`. The runner must then attend to them all the time, or the command stalls.
        `runner_folders` are those of a runner with many commands, which keeps them."""
        assert manager.tree is not None
        self._manager = manager
        self._is_guest = runner_folders is not None
        self._ruleset = Ruleset(abi, scoped=SCOPE_SIGNAL)
        self._places = OpenPlaces(self._ruleset.open)
        #: What the settings list and does not exist.
        self.missing = self._places.missing
        sweep()  # not earlier: once we hold these files, what a killed run left there is ours
        self._runner_folders = runner_folders
        self.denied_writes: DeniedWrites | None = None
        try:
            self._runner_folders = runner_folders = runner_folders or RunnerFolders(grant.owner)
            self._open(runner_folders, manager.tree.root, grant, write, git)
            runner_folders.furnish({"gap": GapRecorder(grant), **(questions or {})})
            if notice:
                root = manager.tree.root
                granted = [os.path.normpath(os.path.join(root, path)) for path in grant.write_paths]
                self.denied_writes = DeniedWrites(root, self._places.opened, granted)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        runner_folders: RunnerFolders,
        root: str,
        grant: LockGrant,
        write: Iterable[str],
        git: bool,
    ) -> None:
        places, controls = self._places, controls_of(root)
        for path in grant.write_paths:
            control = controls.of(os.path.join(root, path)) if kind(path) == "path" else None
            if control is not None:
                raise ControlFileError(
                    control.sentence(plain(path)), hint="change it yourself, outside the sandbox",
                    path=plain(path),
                )  # fmt: skip
        try:
            places.add_targets(root, grant.write_paths)
        finally:
            runner_folders.note(places.made)
        places.add_listed(root, write, controls, keep=[runner_folders.folder, *self._closed(root)])
        places.add_folder(runner_folders.tmp)
        places.add_devices()
        places.add_streams()
        if git:
            places.add_git(root)

    def _closed(self, root: str) -> list[str]:
        """The folders of the ledger, which no setting may open."""
        return [f"{root}/{LEDGER_FOLDER}", folder_of(self._manager.store.url, root)]

    @property
    def scratch(self) -> str:
        """The command's folder for temporary files."""
        assert self._runner_folders is not None
        return self._runner_folders.tmp

    def variables(self) -> dict[str, str]:
        """The variables that the command gets."""
        assert self._runner_folders is not None
        told = dict.fromkeys(_TEMPORARY_VARIABLES, self.scratch)
        return {**told, SOCKET_VARIABLE: self._runner_folders.socket}

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        mask: Iterable[int] = (),
        default: Iterable[int] = (),
        prepare: Callable[[], None] | None = None,
    ) -> int:
        """Start the command inside; its pid. See `restricted_start.start`. `prepare` is called in
        the child before it is restricted."""

        def enter() -> None:
            if prepare is not None:
                prepare()
            self._ruleset.enforce()
            if self.denied_writes is not None:
                self.denied_writes.enter()

        assert self._manager.tree is not None
        outside = for_agents_in(self._manager.tree.root, environment)
        whole = {**outside, **self.variables()}
        child = start(command, whole, enter, mask=mask, default=default)
        self.begin()
        return child

    @property
    def ruleset(self) -> int:
        """The descriptor with which another process restricts the command that it starts, before
        `begin`."""
        return self._ruleset.descriptor

    def begin(self) -> None:
        """The command has been started inside."""
        self._ruleset.close()
        if self.denied_writes is not None:
            self.denied_writes.begin()

    @property
    def first_request(self) -> int:
        """Readable when a process inside sends the first request; -1 once requests are served."""
        assert self._runner_folders is not None
        return self._runner_folders.first_request

    def serve(self) -> None:
        """Answer requests from inside, from now on."""
        assert self._runner_folders is not None
        self._runner_folders.serve(self._manager)

    def shut(self) -> None:
        """Stop answering, and remove what we created and the command left untouched: from now on
        another holder may have the files."""
        if self._runner_folders is not None:
            self._runner_folders.stop_serving()
        if self.denied_writes is not None:
            self.denied_writes.close()
        self._ruleset.close()
        remove_untouched(self._places.made)
        self._places.made.clear()

    def close(self) -> str:
        """Remove what we created and the command left untouched, and the content of the scratch
        folder; the folder as well, unless the runner keeps it.

        Returns the folder if it could not be emptied because a process still writes there.
        """
        self.shut()
        runner_folders = self._runner_folders
        if runner_folders is None or (
            runner_folders.clear() if self._is_guest else runner_folders.close()
        ):
            return ""
        return runner_folders.folder
