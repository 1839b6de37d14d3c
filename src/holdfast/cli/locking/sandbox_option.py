"""The option `--sandbox[=best-effort]` of every command that has a sandbox."""

from __future__ import annotations

from holdfast.cli.parser import UsageError
from holdfast.cli.printing import talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call

BEST_EFFORT = "best-effort"


def is_best_effort(call: Call) -> bool:
    """Whether the caller accepts an incomplete sandbox. Raises UsageError for another value."""
    given = call.text("sandbox")
    if given not in (None, BEST_EFFORT):
        raise UsageError(
            f"--sandbox={given} is not known", hint=f"write --sandbox, or --sandbox={BEST_EFFORT}"
        )
    return given == BEST_EFFORT


def version(call: Call, who: str, instead: str = "") -> int:
    """The version of the kernel's sandbox; 0 if there is none and the caller accepts that.

    `who` names what runs in it, as in "the command runs". `instead` is an alternative for the hint.
    Raises SandboxError if a complete sandbox is required and impossible.
    """
    from holdfast.gate.sandbox import box
    from holdfast.gate.sandbox.kernel import landlock

    if not is_best_effort(call):
        return box.demand(instead).abi
    found = landlock.support()
    if not found.is_enough:
        how = "in an incomplete sandbox" if found.abi else "without a sandbox"
        talk(f"holdfast: {who} {how}: {found.lacks}")
    return found.abi
