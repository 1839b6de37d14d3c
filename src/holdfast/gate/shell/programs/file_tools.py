"""Commands that create, move and remove files."""

from __future__ import annotations

import os

from holdfast.gate.shell.programs.operands import scan
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.command_calls import Call, Handler

FILES_MAX = 200
NO_FOLDER = ("-T", "--no-target-directory")
INTO = ("-t", "--target-directory")


def cp(call: Call) -> str | None:
    found = scan(call.args, "tS", ("--target-directory", "--suffix", "--sparse"))
    deep = found.has("-r", "-R", "-a", "--recursive", "--archive")
    for source, target in pairs(call, found.operands, found.value(*INTO), found.has(*NO_FOLDER)):
        if target is None or source is None or (deep and not source.known):
            call.walk.doubt()
        elif deep and call.walk.is_folder(call.path(source)):
            copy_folder(call, source.text, target)
        elif found.has("--parents"):
            call.walk.doubt()
        elif call.walk.is_folder(call.path(source)):
            continue  # skipped, with an error message
        elif deep and not call.walk.file_exists(call.path(source)):
            call.walk.doubt()  # it is unknown whether it will be a folder
        else:
            call.write(target)
    return None


def copy_folder(call: Call, source: str, target: Arg) -> None:
    """The files that copying a folder writes elsewhere, one by one; the whole folder if they are
    many."""
    top = call.scope.path(source)
    if not target.known or top is None:
        call.walk.doubt()
        return
    names: list[str] = []
    for folder, _, files in os.walk(top):
        call.walk.spend(5 + len(files))
        below = folder[len(top) :].strip("/")
        names += [f"{below}/{name}" if below else name for name in files]
        if len(names) > FILES_MAX:
            call.write(target, folder=True)
            return
    inside = top.rstrip("/") + "/"
    names += [path[len(inside) :] for path in call.walk.made if path.startswith(inside)]
    for name in sorted(set(names)):
        call.walk.write(f"{target.text}/{name}", call.scope)


def pairs(
    call: Call, operands: list[Arg], into: Arg | None, never_into: bool
) -> list[tuple[Arg | None, Arg | None]]:
    """Sources and their targets. None stands for an unknown one."""
    sources = operands
    if into is None:
        if len(operands) < 2:
            if operands and any(arg.loose for arg in operands):
                return [(None, None)]
            return []
        into = operands[-1]
        sources = operands[:-1]
        many = len(sources) > 1
        folder = many or into.text.endswith("/") or call.walk.is_folder(call.path(into))
        if any(arg.loose for arg in operands):
            return [(None, None)]
        if never_into or not folder or not into.known:
            return [(source, into) for source in sources]
    if not into.known:
        return [(source, None) for source in sources]
    found: list[tuple[Arg | None, Arg | None]] = []
    for source in sources:
        if source.unmatched:
            continue
        name = source.text.rstrip("/").rpartition("/")[2]
        if not source.known or name in (".", "..", ""):
            found.append((source, Arg(into.text) if source.known else None))
        else:
            found.append((source, Arg(into.text.rstrip("/") + "/" + name)))
    return found


def mv(call: Call) -> str | None:
    found = scan(call.args, "tS", ("--target-directory", "--suffix"))
    move(call, pairs(call, found.operands, found.value(*INTO), found.has(*NO_FOLDER)))
    return None


def move(call: Call, moves: list[tuple[Arg | None, Arg | None]]) -> None:
    for source, target in moves:
        if source is None:
            call.walk.doubt()
            continue
        folder = source.known and call.walk.is_folder(call.path(source))
        if folder:
            call.write(source, folder)
        else:
            call.remove(source)
        if target is None or not source.known:
            call.walk.doubt()
        if target is not None and not source.unmatched:
            call.write(target, folder)
            path = call.path(target)
            if folder and path:
                copy_folder(call, source.text, target)
                call.walk.folders.add(path.rstrip("/"))


def rm(call: Call) -> str | None:
    found = scan(call.args)
    deep = found.has("-r", "-R", "--recursive")
    for arg in found.operands:
        remove(call, arg, deep)
    return None


def remove(call: Call, arg: Arg, deep: bool) -> None:
    path = call.path(arg)
    folder = call.walk.is_folder(path)
    if folder and path and os.path.islink(path.rstrip("/")) and not arg.text.endswith("/"):
        folder = False  # the link is removed, not its target
    if folder and not deep:
        return  # an error: nothing happens
    if folder or (deep and arg.text.endswith("/")):
        call.write(arg, folder=True)
    else:
        call.remove(arg)


def unlink(call: Call) -> str | None:
    for arg in scan(call.args).operands:
        call.remove(arg)
    return None


def touch(call: Call) -> str | None:
    for arg in scan(call.args, "drt", ("--date", "--reference", "--time")).operands:
        if not call.walk.is_folder(call.path(arg)):
            call.write(arg)
    return None


def ln(call: Call) -> str | None:
    found = scan(call.args, "tS", ("--target-directory", "--suffix"))
    operands = found.operands
    if len(operands) == 1 and not found.has(*INTO):
        operands = [*operands, Arg(".")]
    if found.has("-n", "--no-dereference", "-h") and operands:
        path = call.path(operands[-1])
        never = len(operands) == 2 and path is not None and os.path.islink(path.rstrip("/"))
    else:
        never = False
    for _, link in pairs(call, operands, found.value(*INTO), never or found.has(*NO_FOLDER)):
        if link is None:
            call.walk.doubt()
        call.write(link)
    return None


def install(call: Call) -> str | None:
    found = scan(
        call.args, "gmoStZ", ("--group", "--mode", "--owner", "--suffix", "--target-directory")
    )
    if found.has("-d", "--directory"):
        return mkdir(call)
    for _, target in pairs(call, found.operands, found.value(*INTO), found.has(*NO_FOLDER)):
        if target is None:
            call.walk.doubt()
        call.write(target)
    return None


def mkdir(call: Call) -> str | None:
    for arg in scan(call.args, "mgo", ("--mode",)).operands:
        path = call.path(arg)
        while (
            path and path.rstrip("/") and not os.path.isdir(path) and len(call.walk.folders) < 500
        ):
            path = path.rstrip("/")
            call.walk.folders.add(path)
            path = path.rpartition("/")[0]
    return ""


def truncate(call: Call) -> str | None:
    for arg in scan(call.args, "sr", ("--size", "--reference")).operands:
        call.write(arg)
    return None


def dd(call: Call) -> str | None:
    for arg in call.args:
        if arg.text.startswith("of="):
            call.write(arg.part(3))
        elif not arg.known and not arg.text:
            call.walk.doubt()
    return None


def tee(call: Call) -> str | None:
    found = scan(call.args)
    printed = call.stdin.text if call.stdin else None
    for arg in found.operands:
        call.write(arg)
        path = call.path(arg)
        if path and path in call.walk.made and not call.walk.muted:
            call.walk.made[path] = None if found.has("-a", "--append") else printed
    return printed


FILES: dict[str, Handler] = {
    "cp": cp, "gcp": cp, "mv": mv, "gmv": mv, "rm": rm, "grm": rm, "trash": rm,
    "unlink": unlink, "shred": truncate, "touch": touch, "ln": ln, "install": install,
    "ginstall": install, "mkdir": mkdir, "truncate": truncate, "dd": dd, "tee": tee,
    "sponge": tee,
}  # fmt: skip
