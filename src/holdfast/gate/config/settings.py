"""The settings of a repository: `holdfast.toml` at its root, and the defaults without one.

    notify = []              # a command that is started when an agent is blocked, or can continue
    store = ""               # the store on a server that has the ledger; empty for one in this tree
    repository = ""          # the repository's name there; empty for its first commit

    [gate]
    shell = "lease"          # how shell commands run: lease (where the kernel can), guard or off
    lease_except = ["sudo", …]  # commands that cannot run below a broker, and are guarded
    retry_seconds = 180      # from a refusal to the one retry
    hold_seconds = 20        # how long a refused call is held open, in case its file becomes free
    timeout_seconds = 240    # how long a client waits for a hook, which stops 10 s earlier itself
    idle_seconds = 30        # from a stop to the release, if the agent does nothing more
    foreign_seconds = 1800   # a lease's length if its owner may be alive elsewhere
    wake = true              # hand a file over as soon as it is free, before the retry is due
    across_worktrees = "tell"  # if another checkout's agent changes the file: tell, refuse, off

    [sandbox]
    write = []               # what a sandboxed command may write besides its grant

    [work]                   # how agents are started: read in `holdfast.work.screens.layout`

A misspelled key is an error that names the line, never a silent default. A hook cannot fail for
that, so it passes `lenient`: then the valid settings apply, the rest has its default, and `problem`
is the message for people.

A hook reads this each time. Without a file that costs one failed `open`, and the parser
(`gate.config.settings_file`) is not imported.
"""

from __future__ import annotations

from holdfast.core.model import Value
from holdfast.core.root_errors import SettingsError
from holdfast.manager.files.settings_text import FILE, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

LEASE = "lease"
GUARD = "guard"
#: The earlier name of `lease`.
ENFORCE = "enforce"
OFF = "off"
SHELL_CHOICES = (LEASE, GUARD, ENFORCE, OFF)
#: Programs that need what no command below a broker has: other privileges, mounts, namespaces, a
#: listener of their own; and programs whose writes are made by a process elsewhere.
LEASE_EXCEPT = (
    "sudo", "doas", "su", "pkexec", "mount", "umount", "fusermount", "fusermount3", "unshare",
    "nsenter", "chroot", "bwrap", "flatpak", "docker", "podman", "nerdctl", "buildah", "apptainer",
)  # fmt: skip
TELL = "tell"
REFUSE = "refuse"
ACROSS_CHOICES = (TELL, REFUSE, OFF)

#: A hook gives up by itself this long before its client's timeout, because a client that times out
#: lets the write happen.
MARGIN_SECONDS = 10


class Settings(Value):
    """The settings of a repository. `problem` is empty unless an error was tolerated."""

    __slots__ = (
        "across_worktrees", "foreign_seconds", "hold_seconds", "idle_seconds", "lease_except",
        "notify", "problem", "repository", "retry_seconds", "sandbox_write", "shell", "store",
        "timeout_seconds", "wake",
    )  # fmt: skip

    def __init__(
        self,
        *,
        shell: str = LEASE,
        lease_except: tuple[str, ...] = LEASE_EXCEPT,
        retry_seconds: float = 180,
        hold_seconds: float = 20,
        timeout_seconds: int = 240,
        idle_seconds: float = 30,
        foreign_seconds: float = 1800,
        wake: bool = True,
        across_worktrees: str = TELL,
        sandbox_write: tuple[str, ...] = (),
        notify: tuple[str, ...] = (),
        store: str = "",
        repository: str = "",
        problem: str = "",
    ) -> None:
        self.shell: Final = LEASE if shell == ENFORCE else shell
        self.lease_except: Final = lease_except
        self.retry_seconds: Final = retry_seconds
        self.hold_seconds: Final = hold_seconds
        self.timeout_seconds: Final = timeout_seconds
        self.idle_seconds: Final = idle_seconds
        self.foreign_seconds: Final = foreign_seconds
        self.wake: Final = wake
        self.across_worktrees: Final = across_worktrees
        self.sandbox_write: Final = sandbox_write
        self.notify: Final = notify
        #: Both are used by `manager.server_location`, which reads them itself.
        self.store: Final = store
        self.repository: Final = repository
        self.problem: Final = problem

    @property
    def deadline_seconds(self) -> int:
        """The time within which a hook answers in any case."""
        return self.timeout_seconds - MARGIN_SECONDS

    @classmethod
    def load(cls, root: str, *, lenient: bool = False) -> Settings:
        """The settings of the repository with this root. Raises SettingsError unless `lenient`."""
        file = f"{root}/{FILE}"
        try:
            text = text_of(file)
        except SettingsError as error:
            if not lenient:
                raise
            return cls(problem=error.message)
        return cls.of(file, text, lenient=lenient)

    @classmethod
    def of(cls, file: str, text: str | None, *, lenient: bool = False) -> Settings:
        """The settings from a file's text; None if there is no file. Raises as `load`."""
        if text is None:
            return cls()
        from holdfast.gate.config.settings_file import found_in

        try:
            found, problems = found_in(file, text)
        except SettingsError as error:
            if not lenient:
                raise
            return cls(problem=error.message)
        if problems and not lenient:
            raise problems[0]
        return cls(**found, problem="; ".join(error.message for error in problems))
