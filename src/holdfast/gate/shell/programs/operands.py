"""Options and operands of a command, by the conventions that nearly all commands follow."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.scope import Arg


class Options:
    __slots__ = ("operands", "options")

    def __init__(self) -> None:
        self.options: list[tuple[str, Arg | None]] = []
        self.operands: list[Arg] = []

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[Arg]:
        return [value for name, value in self.options if name in names and value is not None]

    def value(self, *names: str) -> Arg | None:
        found = self.values(*names)
        return found[-1] if found else None


def scan(
    args: list[Arg],
    takes: str = "",
    long_takes: tuple[str, ...] = (),
    attached: str = "",
    first_ends: bool = False,
) -> Options:
    """Tell options from operands.

    `takes` are letters that require a value, `attached` those that have one only if it follows
    them directly, `long_takes` long names that require one. With `first_ends` the first operand
    ends the options, and everything after it is an operand.
    """
    found = Options()
    i = 0
    while i < len(args):
        arg = args[i]
        text = arg.text
        i += 1
        if text == "--" and arg.known:
            found.operands += args[i:]
            break
        if text.startswith("--") and (arg.known or "=" in text):
            name, equals, _ = text.partition("=")
            if equals:
                found.options.append((name, arg.part(len(name) + 1)))
            elif name in long_takes and i < len(args):
                found.options.append((name, args[i]))
                i += 1
            else:
                found.options.append((name, None))
        elif len(text) > 1 and text[0] == "-":
            i = _cluster(args, i, takes, attached, found)
        else:
            found.operands.append(arg)
            if first_ends:
                found.operands += args[i:]
                break
    return found


def _cluster(args: list[Arg], i: int, takes: str, attached: str, found: Options) -> int:
    """`-abc`, `-ofile`, `-o file`; where the next argument is."""
    arg = args[i - 1]
    text = arg.text
    for j in range(1, len(text)):
        letter = "-" + text[j]
        if text[j] in attached:
            found.options.append((letter, arg.part(j + 1)))
            return i
        if text[j] in takes:
            if j + 1 < len(text) or not arg.known:
                found.options.append((letter, arg.part(j + 1)))
            elif i < len(args):
                found.options.append((letter, args[i]))
                return i + 1
            else:
                found.options.append((letter, None))
            return i
        found.options.append((letter, None))
    return i
