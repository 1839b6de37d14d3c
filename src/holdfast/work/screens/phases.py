"""The phases of the work: what is run in each, its prompt, and its limits.

`analyze` is about a screen, all others are about a controller. A phase without a command is
skipped; only analyze and apply have a default command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.core.root_errors import SettingsError
from holdfast.manager.files.settings_text import WORK
from holdfast.work.engine.work_items import (
    ANALYZE,
    APPLY,
    FIX,
    PHASES,
)
from holdfast.work.screens.templates import filled

#: The placeholders of paths.
PATH_WORDS = ("module", "controller", "screen", "model", "action")
#: The placeholders in the command and the prompt of an analysis.
SCREEN_WORDS = (*PATH_WORDS, "actions", "workflow", "docs", "output", "reads")
#: The placeholders of all other phases.
MERGE_WORDS = (
    "module", "controller", "model", "workflow", "screens", "docs", "files", "log", "round",
)  # fmt: skip

#: The kernel accepts no longer word in a command line.
WORD_BYTES_MAX = 131_071

ANALYZE_PROMPT = """\
Analyse the screen "{screen}" of {module}/{controller} in this repository (actions: {actions}).
Change nothing. You may write one file only: {output}

What belongs to it:
{reads}

Write your result to {output} as plain JSON, without a code fence:
{"screen": "{screen}", "findings": […], "write_targets": […]}

"findings" says what should be changed and why, so that another agent can do it.
"write_targets" lists every file that those changes touch, also new ones and tests: paths relative
to the root of the repository, files only, never folders. The agent that makes the changes can write
exactly these files and no others.
"""

APPLY_PROMPT = """\
Carry out the findings of the analyses of {module}/{controller} in this repository. Read them first:
{docs}

You can write exactly these files:
{files}

Everything else is refused. If a change needs another file, leave that change out, say which file
it needs, and continue with the rest.
"""

AMEND_PROMPT = """\
The findings of the analyses of {module}/{controller} in this repository were carried out already,
except for changes to files that could not be written then. Read them first:
{docs}

You can write exactly these files, which were missing:
{files}

Carry out the changes that need them. Everything else is done, and is refused: do not do it again.
If a change needs another file, leave that change out, say which file it needs, and continue.
"""

FIX_PROMPT = """\
The checks of {module}/{controller} failed. What they printed is in {log}. Fix the cause.

You can write exactly these files:
{files}

Everything else is refused. If a change needs another file, say which, and continue with the rest.
"""

_CLAUDE = ("claude", "-p", "{prompt}")


@dataclass(frozen=True, slots=True)
class Phase:
    """What is run in one phase, and its limits.

    `outputs` are the files that an analysis writes, in the folder of its screen; the first has its
    findings. `output_bytes_max` is how much of the command's output is kept. `rounds` is how many
    times a fix is attempted.
    """

    name: str
    command: tuple[str, ...] = ()
    prompt: str = ""
    stdin: bool = False
    timeout_seconds: float = 1800
    output_bytes_max: int = 16 << 20
    outputs: tuple[str, ...] = ()
    rounds: int = 0

    @property
    def is_skipped(self) -> bool:
        """Whether there is nothing to run."""
        return not self.command

    def amending(self) -> Phase:
        """The same for a merge that is amended. A prompt from the settings is used as it is: its
        author decides."""
        return replace(self, prompt=AMEND_PROMPT) if self.prompt == APPLY_PROMPT else self

    def words(self, values: Mapping[str, str]) -> list[str]:
        """The command for one screen or controller, ready to run."""
        prompt = filled(self.prompt, values)
        found = [filled(word, {**values, "prompt": prompt}) for word in self.command]
        if any(len(word.encode()) > WORD_BYTES_MAX for word in found):
            raise SettingsError(
                f"the command of {self.name} has a word of more than {WORD_BYTES_MAX >> 10} KiB, "
                "which no system accepts",
                hint=f"set stdin = true in [{WORK}.{self.name}] and leave {{prompt}} out of its "
                "command",
                key=f"{WORK}.{self.name}.command",
            )
        return found

    def typed(self, values: Mapping[str, str]) -> str | None:
        """The standard input of the command; None if it has none."""
        return filled(self.prompt, values) if self.stdin else None


def default_phases() -> dict[str, Phase]:
    """The phases without any settings."""
    found = {
        ANALYZE: Phase(ANALYZE, _CLAUDE, ANALYZE_PROMPT, outputs=("findings.json",)),
        APPLY: Phase(APPLY, _CLAUDE, APPLY_PROMPT),
        FIX: Phase(FIX, prompt=FIX_PROMPT, rounds=3),
    }
    return {name: found.get(name, Phase(name)) for name in PHASES}
