"""The commands that the documents show, and whether their real output is the one shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from helpers_cli import Answer, Terminal

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)

#: Parts of output that differ from run to run: holders, times, places, and widths of columns.
_DIFFERS = (
    (r"\b\w[\w.-]*@[\w./:-]+:\d+", "WHO"),
    (r"\bclaude@[\w./:-]*\w", "WHO"),
    (r"\bvm(:\w+){3}\b|\b[\w.-]+:\w+:\d+:\d+\b", "WHO"),
    (r"\b(?:run|hold)-[0-9a-f]{8,12}\b", "RUN"),
    (r"\b\d{16}\b", "TOKEN"),
    (r"\b\d{8}T\d{6}Z\b", "MOMENT"),
    (r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "MOMENT"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "WHEN"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "WHEN"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r"\b(?:[A-Z][a-z]{2} )?\d\d:\d\d\b", "TIME"),
    (r"\b\d+ (?:s|min)\b", "LONG"),
    (r"\bpid \d+", "PID"),
    (r"\b(locks?) in /.*", r"\1 in FOLDER"),
    (r"\b[0-9a-f]{8}(?:[0-9a-f]{12})?\b", "ID"),
    (r"[ \t]+", " "),
    (r" $", ""),
    (r"^\[\d+\][+-]? .*\n", ""),  # the shell's line about a background command
)
_ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}(?:[0-9a-f]{12})?\b")


class Shown(NamedTuple):
    """A command as a page shows it, with the output below it; None where the page lists commands
    without their output."""

    page: str
    line: int
    command: str
    output: str | None


def blocks(page: str, kind: str) -> list[str]:
    """The code of one kind in a page."""
    return [text for found, text in _BLOCK.findall((ROOT / page).read_text()) if found == kind]


def transcripts(page: str) -> list[Shown]:
    """The commands of a page that are shown behind a prompt."""
    found = []
    text = (ROOT / page).read_text()
    for block in _BLOCK.finditer(text):
        parts = list(re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block[2], re.M))
        listed = not any(part[2] for part in parts)
        for part in parts:
            line = text.count("\n", 0, block.start(2) + part.start()) + 1
            output = None if listed else part[2]
            found.append(Shown(page, line, without_comment(part[1]), output))
    return found


def listed_commands(page: str) -> list[str]:
    """Our commands in a page's blocks that have neither a prompt nor output."""
    found = []
    for kind, block in _BLOCK.findall((ROOT / page).read_text()):
        if kind in ("", "sh") and "$ " not in block:
            found += re.findall(r"^(?:source <\()?holdfast [a-z-].*$", block, re.M)
    return [without_comment(command) for command in found]


def named_commands(page: str) -> Iterator[tuple[int, str]]:
    """Each of our commands that a page names without a prompt, in a block or a sentence, with its
    line."""
    text = (ROOT / page).read_text()
    in_blocks = [
        (block.start(2) + found.start(), without_comment(found[0]))
        for block in _BLOCK.finditer(text)
        if block[1] in ("", "sh", "console", "text", "yaml", "toml")
        for found in re.finditer(r"^holdfast [a-z-].*$", block[2], re.M)
    ]
    prose = _BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    in_prose = [(one.start(), one[1]) for one in re.finditer(r"`(holdfast [^`]*)`", prose)]
    for at, command in in_blocks + in_prose:
        yield text.count("\n", 0, at) + 1, command


def without_comment(command: str) -> str:
    """A line of the shell without the comment after it."""
    return re.sub(r"\s{2,}# .*$", "", command).rstrip()


def alike(text: str) -> str:
    """A text without the parts that differ from run to run."""
    for pattern, instead in _DIFFERS:
        text = re.sub(pattern, instead, text, flags=re.M)
    return text


def is_shown(said: str, shown: str) -> bool:
    """Whether a command's output is the one shown. An ellipsis stands for anything, and one on a
    line of its own for any lines."""
    pattern = re.sub(r"^\s*…$", "\0", alike(shown), flags=re.M)
    pattern = re.escape(pattern).replace("…", ".*").replace("\0\\\n", "(?:.*\n)*?")
    return re.fullmatch(pattern, alike(said)) is not None


class Reader:
    """Types the commands of a page, and compares their output with the one that the page shows.

    Each run makes new ids, so the reader maps the ids of the page to the real ones when it types.
    `folders` are the real paths that have another name in the page."""

    def __init__(self, terminal: Terminal, folders: Iterable[tuple[Path | str, str]] = ()) -> None:
        self.terminal = terminal
        self._folders = [(str(real), shown) for real, shown in folders]
        self._ids: dict[str, str] = {}

    def follow(self, shown: Shown, *, says: str = "") -> Answer:
        """Run the shown command; if it asks something, the reader answers with `says`."""
        command = self._translated(shown.command)
        answer = self.terminal.do(f"{{ {command}\n}} 2>&1", says)  # both in a terminal's order
        said = answer.out
        for real, name in self._folders:
            said = said.replace(real, name)
        place = f"{shown.page}:{shown.line}: {shown.command}"
        if shown.output is None:
            assert answer.code == 0, f"{place}\n{said}"
            return answer
        assert is_shown(said, shown.output), f"{place}\n--- shown\n{shown.output}--- said\n{said}"
        self._ids.update(zip(_ID.findall(shown.output), _ID.findall(said), strict=False))
        return answer

    def _translated(self, command: str) -> str:
        def of(found: re.Match[str]) -> str:
            for shown, real in self._ids.items():
                if shown.startswith(found[0]):
                    return real[: len(found[0])]
            return found[0]

        return re.sub(r"(?<![\w./-])[0-9a-f]{4,20}(?![\w./-])", of, command)


def words_of(command: str) -> list[str]:
    """The words of a command that a page names, up to the first operator of the shell."""
    words = shlex.split(command.replace("'", "").replace('"', ""))
    ends = [at for at, word in enumerate(words) if re.match(r"[<>|&;)]", word)]
    return words[1 : min(ends, default=len(words))]
