"""Output: data to the standard output, remarks and errors to the standard error.

Reasons, names and paths come from other people's ledgers and command lines. None of them may send
a control sequence to the reader's terminal, so unprintable characters are escaped.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.core.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TextIO

#: Characters that are not special in any shell.
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


class OutputError(HoldfastError):
    """The standard output cannot be written."""

    code = "E_OUTPUT"


def prepare() -> None:
    """Make every character printable, whatever the locale is."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def out(text: str) -> None:
    """Print data to the standard output. Raises BrokenPipeError if the reader is gone."""
    try:
        _write(sys.stdout, f"{text}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"the output cannot be written: {error.strerror or type(error).__name__}",
            hint="the command itself was carried out; holdfast status shows the result",
        ) from error


def talk(text: str) -> None:
    """Print a remark to the standard error. If that is closed, the remark is dropped."""
    try:
        _write(sys.stderr, f"{text}\n")
    except OSError:
        return


def talk_at_once(text: str) -> None:
    """The same for the handler of a signal: it may interrupt a write, and a stream refuses another
    write then."""
    if sys.stderr is None:
        return
    try:
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        return


def document(value: Any) -> None:
    """Print one JSON document on one line."""
    from holdfast.core.codec import dumps

    text = dumps(value)
    out(text if text.isprintable() else "".join(map(_json_escaped, text)))


def _json_escaped(character: str) -> str:
    """Escape a character, since JSON itself allows some control characters."""
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # the caller closed it
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _silence(stream)
        raise


def _silence(stream: TextIO) -> None:
    """Discard what is buffered, and what the interpreter flushes at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def complain(error: HoldfastError, as_json: bool) -> None:
    """Print an error and its hint."""
    if not as_json or isinstance(error, OutputError):
        for line in _error_lines(error):
            talk(plain(line))
        if error.hint:
            talk(f"  -> {plain(error.hint)}")
        return
    from holdfast.manager.plain_data import error_data

    try:
        document({"error": error_data(error)})
    except (OSError, OutputError):
        return


def _error_lines(error: HoldfastError) -> list[str]:
    """The lines of an error: its sentence, or one line for each of several problems."""
    problems = error.fields.get("problems", ())
    if len(problems) < 2:
        return [f"holdfast: {error.message}"]
    count = error.fields["count"]
    lines = [f"holdfast: {error.fields['file']}: {count} errors"]
    lines += [f"  {': '.join(filter(None, (one['place'], one['problem'])))}" for one in problems]
    return lines + [f"  and {count - len(problems)} more"] * (count > len(problems))


#: Characters that Python calls printable although they are invisible: fillers, joiners, selectors.
_BLANK = (
    range(0x34F, 0x350), range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810),
    range(0x2800, 0x2801), range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFFA0, 0xFFA1),
    range(0xE0100, 0xE01F0),
)  # fmt: skip


def plain(text: str) -> str:
    """The text with every control character and every invisible character escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_seen(c) else ascii(c)[1:-1] for c in text)


def _is_seen(character: str) -> bool:
    if not character.isprintable():
        return False
    code = ord(character)
    return code < 0x34F or not any(code in blank for blank in _BLANK)


def listed(texts: Iterable[str], most: int = 5) -> str:
    """The first texts, separated by commas, and the number of the others."""
    found = [plain(text) for text in texts]
    if len(found) > most + 1:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return ", ".join(found)


def quoted(words: Iterable[str]) -> str:
    """Words, quoted so that they can be pasted into a shell."""
    return " ".join(
        word if word and _HARMLESS.issuperset(word) else "'" + word.replace("'", "'\\''") + "'"
        for word in map(plain, words)
    )


def local(moment: float) -> str:
    """A moment in local time, with the day if it is not today."""
    at, today = time.localtime(moment), time.localtime()
    if at[:3] == today[:3]:
        return f"{at.tm_hour:02d}:{at.tm_min:02d}"
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    if abs(moment - time.time()) < 6 * 86400:
        return f"{days[at.tm_wday]} {at.tm_hour:02d}:{at.tm_min:02d}"
    return f"{at.tm_year}-{at.tm_mon:02d}-{at.tm_mday:02d} {at.tm_hour:02d}:{at.tm_min:02d}"


def colours() -> bool:
    """Whether the standard output is a terminal that shows colours, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal()


def is_terminal() -> bool:
    """Whether the standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()
