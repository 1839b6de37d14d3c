"""What a shell command line plainly writes, without running any of it.

`read(command, cwd)` returns a `Reading`: paths, git verbs that may change any file of the tree, and
whether the line may write files that its text does not show. This is no sandbox: a program may
write any file, and a line that is unsure has to be watched in another way.

    parsing         characters to words, commands and arguments
    line_walk       follows the commands in order
    scope           folder, variables and functions at one moment
    conditions      tests for files that decide what is reached
    command_calls   one command with its arguments, and which program it is
    programs        what common programs write
    line_writes     the result: paths, git verbs, doubts

Imports of the gate only `clients.patch_files`, and of the rest only `core`.
"""

from __future__ import annotations

from holdfast.gate.shell.line_writes import Reading, TreeVerb

__all__ = ["Reading", "TreeVerb", "read"]

LENGTH_MAX = 1_000_000


def read(command: str, cwd: str) -> Reading:
    """What a command line writes if it is typed in `cwd`, an absolute path. Never raises.

    Patterns are matched against the files that exist now; small patch files are read.
    """
    if len(command) > LENGTH_MAX:
        return Reading(unsure=True, problem="the command is too long to be parsed")
    if "\0" in command:
        return Reading(unsure=True, problem="the command contains a NUL character")
    from holdfast.gate.shell.line_walk import follow

    try:
        return follow(command, cwd)
    except RecursionError:
        return Reading(unsure=True, problem="it is nested too deeply")
    except Exception as error:  # a hook must answer, whatever was typed
        return Reading(unsure=True, problem=f"it could not be followed: {error!r}")
