"""What goes to which stream: data to the one, talk and complaints to the other.

Reasons, names and paths come from other people's ledgers and command lines. None of them may
send a control sequence to whoever reads them, so whatever is not printable is spelled out.
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

#: Characters that mean nothing to any shell.
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


class OutputError(HoldfastError):
    """The standard output takes nothing."""

    code = "E_OUTPUT"


def prepare() -> None:
    """Make sure that no character can stop the printing, whatever the locale is."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def out(text: str) -> None:
    """Data: to the standard output, at once. Raises BrokenPipeError if nobody reads it."""
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
    """Words beside the data: to the standard error. If nobody can hear them, that is no error."""
    try:
        _write(sys.stderr, f"{text}\n")
    except OSError:
        return


def talk_at_once(text: str) -> None:
    """The same from the handler of a signal, which may have come in the middle of a write: a stream
    refuses another one then."""
    if sys.stderr is None:
        return
    try:
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        return


def document(value: Any) -> None:
    """One JSON document on one line."""
    from holdfast.core.codec import dumps

    text = dumps(value)
    out(text if text.isprintable() else "".join(map(_json_escaped, text)))


def _json_escaped(character: str) -> str:
    """JSON itself lets some control characters through."""
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
    """Let what is left, and the interpreter's last flush, go nowhere."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def complain(error: HoldfastError, as_json: bool) -> None:
    """Say what went wrong and what to do next."""
    if not as_json or isinstance(error, OutputError):
        for line in _told(error):
            talk(plain(line))
        if error.hint:
            talk(f"  -> {plain(error.hint)}")
        return
    from holdfast.manager.plain_data import error_data

    try:
        document({"error": error_data(error)})
    except (OSError, OutputError):
        return


def _told(error: HoldfastError) -> list[str]:
    """Its sentence; of an error with several problems, each in a line of its own."""
    problems = error.fields.get("problems", ())
    if len(problems) < 2:
        return [f"holdfast: {error.message}"]
    count = error.fields["count"]
    lines = [f"holdfast: {error.fields['file']}: {count} errors"]
    lines += [f"  {': '.join(filter(None, (one['place'], one['problem'])))}" for one in problems]
    return lines + [f"  and {count - len(problems)} more"] * (count > len(problems))


#: Characters that Python takes for printable, and that show nothing: fillers, joiners, selectors.
_BLANK = (
    range(0x34F, 0x350), range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810),
    range(0x2800, 0x2801), range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFFA0, 0xFFA1),
    range(0xE0100, 0xE01F0),
)  # fmt: skip


def plain(text: str) -> str:
    """The text with everything spelled out that a terminal could obey, or that cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_seen(c) else ascii(c)[1:-1] for c in text)


def _is_seen(character: str) -> bool:
    if not character.isprintable():
        return False
    code = ord(character)
    return code < 0x34F or not any(code in blank for blank in _BLANK)


def listed(texts: Iterable[str], most: int = 5) -> str:
    """Some things in a row; the rest is counted."""
    found = [plain(text) for text in texts]
    if len(found) > most + 1:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return ", ".join(found)


def quoted(words: Iterable[str]) -> str:
    """Words as they can be pasted into a shell."""
    return " ".join(
        word if word and _HARMLESS.issuperset(word) else "'" + word.replace("'", "'\\''") + "'"
        for word in map(plain, words)
    )


def local(moment: float) -> str:
    """A moment as people here say it: the time, with the day if it is not today."""
    at, today = time.localtime(moment), time.localtime()
    if at[:3] == today[:3]:
        return f"{at.tm_hour:02d}:{at.tm_min:02d}"
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    if abs(moment - time.time()) < 6 * 86400:
        return f"{days[at.tm_wday]} {at.tm_hour:02d}:{at.tm_min:02d}"
    return f"{at.tm_year}-{at.tm_mon:02d}-{at.tm_mday:02d} {at.tm_hour:02d}:{at.tm_min:02d}"


def colours() -> bool:
    """Whether the standard output is a terminal that shows colours, and they are wanted."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal()


def is_terminal() -> bool:
    """Whether a person sees the standard output as it comes."""
    return sys.stdout is not None and sys.stdout.isatty()
