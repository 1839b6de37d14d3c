"""Small languages inside arguments: what a sed or awk program writes by itself.

Both can open files (`w FILE`, `print > "FILE"`) and run commands. The programs are parsed just far
enough to detect that; anything else counts as uncertain.
"""

from __future__ import annotations


def sed_writes(script: str) -> tuple[list[str], bool]:
    """The files that a sed script writes, and whether that is all it does."""
    found: list[str] = []
    if "w" not in script and "e" not in script and "W" not in script:
        return found, True
    i, end = 0, len(script)
    while i < end:
        i = _sed_address(script, i)
        if i >= end:
            break
        c = script[i]
        i += 1
        if c in "sy":
            i, flags = _sed_substitution(script, i)
            if i < 0:
                return found, False
            if c == "s" and "e" in flags:
                return found, False
            if c == "s" and "w" in flags:
                c = "w"
        if c == "e":
            return found, False
        if c in "wWrRaic":
            stop = _line_end(script, i, continued=c in "aic")
            if c in "wW":
                found.append(script[i:stop].strip(" \t"))
            i = stop
        elif c in "btT:":
            while i < end and script[i] not in ";\n":
                i += 1
        elif c not in "{}=dDgGhHlnNpPqQxFzsy" and not c.isdigit():
            return found, "w" not in script[i:]
    return [path for path in found if path not in ("", "/dev/stdout", "/dev/stderr")], True


def _sed_address(script: str, i: int) -> int:
    """Where the command after blanks and addresses begins."""
    end = len(script)
    while i < end:
        c = script[i]
        if c in " \t;\n,!$~+0123456789IM":
            i += 1
        elif c == "#":
            i = _line_end(script, i, continued=False)
        elif c in "/\\":
            if c == "\\":
                i += 1
            close = _delimited(script, i + 1, script[i : i + 1])
            if close < 0:
                return end
            i = close
        else:
            break
    return i


def _sed_substitution(script: str, i: int) -> tuple[int, str]:
    delimiter = script[i : i + 1]
    i = _delimited(script, i + 1, delimiter) if delimiter else -1
    i = _delimited(script, i, delimiter) if i >= 0 else -1
    if i < 0:
        return -1, ""
    begin = i
    while i < len(script) and script[i] in "gpiIeMm0123456789w":
        i += 1
        if script[i - 1] == "w":
            break
    return i, script[begin:i]


def _delimited(script: str, i: int, delimiter: str) -> int:
    """The position after the next unescaped delimiter; -1 if there is none."""
    while i < len(script):
        c = script[i]
        if c == "\\":
            i += 1
        elif c == delimiter:
            return i + 1
        i += 1
    return -1


def _line_end(script: str, i: int, continued: bool) -> int:
    while True:
        stop = script.find("\n", i)
        if stop < 0:
            return len(script)
        if not continued or script[stop - 1] != "\\":
            return stop
        i = stop + 1


def awk_writes(program: str) -> tuple[list[str], bool]:
    """The files that an awk program writes, and whether that is all it does."""
    found: list[str] = []
    certain = True
    if ">" not in program and "|" not in program and "system" not in program:
        return found, True
    i, end = 0, len(program)
    printing = False
    nested = 0
    before = ""  # the last non-blank character: distinguishes a regular expression from a division
    while i < end:
        c = program[i]
        if c.isalpha() or c == "_":
            j = i
            while j < end and (program[j].isalnum() or program[j] == "_"):
                j += 1
            word = program[i:j]
            if word in ("print", "printf"):
                printing, nested = True, 0
            elif word == "system" or word == "getline":
                certain = certain and word == "getline"
            before, i = "" if word in ("print", "printf", "return") else "a", j
            continue
        if c == '"' or (c == "/" and before in ("", "(", ",", "!", "~", "&", "|", "{", ";", "\n")):
            close = _delimited(program, i + 1, c)
            if close < 0:
                return found, False
            before, i = "a", close
            continue
        if c == "#":
            i = _line_end(program, i, continued=False)
            continue
        if c in "([":
            nested += 1
        elif c in ")]":
            nested -= 1
        elif c in ";}\n":
            printing = False
        elif c == ">" and printing and nested == 0:
            i += 2 if program.startswith(">>", i) else 1
            path, i = _awk_target(program, i)
            if path is None:
                certain = False
            elif path not in ("", "/dev/stderr", "/dev/stdout"):
                found.append(path)
            printing = False
            before = "a"
            continue
        elif c == "|" and not program.startswith("||", i) and program[i - 1 : i] != "|":
            certain = False
        if c not in " \t":
            before = c
        i += 1
    return found, certain


def _awk_target(program: str, i: int) -> tuple[str | None, int]:
    """The literal file name of a redirection; None if it is computed."""
    end = len(program)
    while i < end and program[i] in " \t":
        i += 1
    if program[i : i + 1] != '"':
        return None, i
    close = _delimited(program, i + 1, '"')
    if close < 0:
        return None, end
    text = program[i + 1 : close - 1]
    j = close
    while j < end and program[j] in " \t":
        j += 1
    alone = j >= end or program[j] in ";}\n"
    return (text if alone and "\\" not in text else None), close
