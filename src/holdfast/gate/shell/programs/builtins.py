"""The shell's own commands, and commands that run another command."""

from __future__ import annotations

from holdfast.gate.shell.command_calls import run
from holdfast.gate.shell.programs.operands import scan
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.command_calls import Call, Handler
    from holdfast.gate.shell.scope import Scope


# folders


def cd(call: Call) -> str | None:
    options = scan(call.args)
    if len(options.operands) > 1:
        return ""  # an error, and the folder stays
    scope = call.scope
    if not options.operands:
        scope.enter(_home(call))
    else:
        arg = options.operands[0]
        if not arg.known or arg.unmatched:
            scope.enter(None)
        elif arg.text == "-":
            scope.enter(scope.old)
        elif arg.text:
            scope.enter(scope.folder(arg.text))
    call.walk.visit(scope.cwd)
    return ""


def _home(call: Call) -> str | None:
    home = call.scope.lookup("HOME")
    return home if isinstance(home, str) else None


def pushd(call: Call) -> str | None:
    operands = scan(call.args).operands
    scope = call.scope
    before = scope.cwd
    if len(operands) != 1 or operands[0].text[:1] in ("+", "-"):
        scope.enter(scope.stack.pop() if scope.stack and not operands else None)
    else:
        arg = operands[0]
        scope.enter(scope.folder(arg.text) if arg.known else None)
    scope.stack.append(before)
    call.walk.visit(scope.cwd)
    return None


def popd(call: Call) -> str | None:
    stack = call.scope.stack
    call.scope.enter(stack.pop() if stack and not call.args else None)
    return None


def pwd(call: Call) -> str | None:
    return None if call.scope.cwd is None or call.args else call.scope.cwd + "\n"


# variables


def declare(call: Call) -> str | None:
    for arg in call.args:
        name, equals, value = arg.text.partition("=")
        if equals and not name.startswith("-"):
            plain = name.rstrip("+")
            known = arg.known and plain == name
            call.scope.variables[plain] = value if known else None
    return ""


def read(call: Call) -> str | None:
    for name in scan(call.args, takes="adinNptu").operands:
        call.scope.variables[name.text] = None
    array = scan(call.args, takes="adinNptu").value("-a")
    if array is not None:
        call.scope.variables[array.text] = None
    return ""


def printf(call: Call) -> str | None:
    args = call.args
    if len(args) > 1 and args[0].text == "-v":
        call.scope.variables[args[1].text] = None
        return ""
    if not args or not all(arg.known for arg in args):
        return None
    shape = args[0].text
    if shape in ("%s", "%s\\n"):
        ending = "\n" if shape.endswith("n") else ""
        return "".join([arg.text + ending for arg in args[1:]])
    if len(args) == 1 and "%" not in shape:
        return shape.replace("\\n", "\n").replace("\\t", "\t") if "\\\\" not in shape else None
    return None


def unset(call: Call) -> str | None:
    for arg in call.args:
        call.scope.variables[arg.text] = None
    return ""


def set_(call: Call) -> str | None:
    for number, arg in enumerate(call.args):
        if arg.text == "--":
            rest = call.args[number + 1 :]
            call.scope.positional = None if any(a.loose for a in rest) else rest
            return ""
        if not arg.text.startswith(("-", "+")):
            break
        if arg.text.startswith("-") and "f" in arg.text and not arg.text.startswith("-o"):
            call.scope.globs = False
    return ""


def shift(call: Call) -> str | None:
    given = call.scope.positional
    if given is not None:
        count = call.args[0].text if call.args else "1"
        known = count.isdigit() and len(count) < 5
        call.scope.positional = given[int(count) :] if known else None
    return ""


def shopt(call: Call) -> str | None:
    names = [arg.text for arg in call.args]
    if "-s" in names:
        if "nullglob" in names:
            call.scope.nullglob = True
        if any(name in names for name in ("globstar", "dotglob", "extglob", "nocaseglob")):
            call.scope.globs = False
    return ""


def leave(call: Call) -> str | None:
    call.scope.dead = True
    return ""


def quiet(call: Call) -> str | None:
    return ""


# commands whose output can be known


def echo(call: Call) -> str | None:
    args = call.args
    if not all(arg.known for arg in args):
        return None
    ending = "\n"
    if args and args[0].text == "-n":
        args, ending = args[1:], ""
    if args and args[0].text.startswith("-") and args[0].text.strip("neE-") == "":
        return None
    return " ".join([arg.text for arg in args]) + ending


def cat(call: Call) -> str | None:
    if not call.args or [arg.text for arg in call.args] == ["-"]:
        return call.stdin_text()
    if any(arg.text.startswith("-") for arg in call.args) or len(call.args) > 20:
        return None
    texts = [call.walk.file_text(call.path(arg)) for arg in call.args]
    known = [text for text in texts if text is not None]
    return "".join(known) if len(known) == len(texts) else None


def basename(call: Call) -> str | None:
    if not call.args or len(call.args) > 2 or not all(arg.known for arg in call.args):
        return None
    if call.args[0].text.startswith("-"):
        return None
    name = call.args[0].text.rstrip("/").rpartition("/")[2]
    if len(call.args) == 2 and name != call.args[1].text:
        name = name.removesuffix(call.args[1].text)
    return name + "\n"


def dirname(call: Call) -> str | None:
    if len(call.args) != 1 or not call.args[0].known or call.args[0].text.startswith("-"):
        return None
    folder, slash, _ = call.args[0].text.rstrip("/").rpartition("/")
    return (folder.rstrip("/") or ("/" if slash else ".")) + "\n"


def seq(call: Call) -> str | None:
    texts = [arg.text for arg in call.args if arg.known]
    plain = all(text.lstrip("-").isdigit() and len(text) < 7 for text in texts)
    if not plain or len(texts) != len(call.args) or not 1 <= len(texts) <= 3:
        return None
    numbers = [int(text) for text in texts]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    if step == 0 or abs(numbers[-1] - first) // abs(step) > 500:
        return None
    stop = numbers[-1] + (1 if step > 0 else -1)
    return "".join([f"{number}\n" for number in range(first, stop, step)])


# commands that run commands


def prefix(
    takes: str = "",
    long_takes: tuple[str, ...] = (),
    operands: int = 0,
    unsure: bool = False,
) -> Handler:
    """A command that takes some operands and runs its other words as a command."""

    def handler(call: Call) -> str | None:
        if unsure:
            call.walk.doubt()
        rest = scan(call.args, takes, long_takes, first_ends=True).operands[operands:]
        return run(call.again(rest)) if rest else ""

    return handler


def env(call: Call) -> str | None:
    found = scan(call.args, "uCS", ("--unset", "--chdir", "--split-string"), first_ends=True)
    words = found.operands
    scope = call.scope.copy()
    folder = found.value("-C", "--chdir")
    if folder is not None:
        scope.enter(scope.folder(folder.text) if folder.known else None)
    split = found.value("-S", "--split-string")
    if split is not None:
        return call.walk.script(split.text, scope) if split.known else _unknown(call)
    while words and "=" in words[0].text and not words[0].text.startswith("="):
        name, _, value = words[0].text.partition("=")
        call.env[name] = value if words[0].known else None
        words = words[1:]
    return run(call.again(words, scope)) if words else None


def command(call: Call) -> str | None:
    found = scan(call.args, first_ends=True)
    if found.has("-v", "-V"):
        return None
    return run(call.again(found.operands)) if found.operands else ""


def sudo(call: Call) -> str | None:
    values = ("--user", "--group", "--chdir", "--prompt", "--host")
    found = scan(call.args, "ugChpTUrtD", values, first_ends=True)
    words = found.operands
    while words and "=" in words[0].text:
        words = words[1:]
    folder = found.value("-D", "--chdir")
    if folder is not None or (found.has("-i", "-e") or not words):
        return _unknown(call)
    return run(call.again(words))


def exec_(call: Call) -> str | None:
    words = scan(call.args, "a", first_ends=True).operands
    if not words:
        return ""
    printed = run(call.again(words))
    call.scope.dead = True
    return printed


def xargs(call: Call) -> str | None:
    """The command's further words are unknown: one that only reads stays harmless."""
    values = ("--arg-file", "--delimiter", "--max-args", "--max-procs", "--replace", "--max-lines")
    found = scan(call.args, "adEILnPs", values, attached="il", first_ends=True)
    words = found.operands
    if not words:
        return None
    marks = [arg.text for arg in found.values("-I", "--replace")] or ["{}"]
    unknown = Arg("", False, "", True)
    if found.has("-I", "-i", "--replace"):
        words = [_with_mark(word, marks[-1]) for word in words]
    else:
        words = [*words, unknown]
    run(call.again(words))
    return None


def _with_mark(word: Arg, mark: str) -> Arg:
    before, found, _ = word.text.partition(mark) if mark else (word.text, "", "")
    return Arg(before, False, word.raw) if found else word


def find(call: Call) -> str | None:
    args = call.args
    i = 0
    while i < len(args):
        text = args[i].text
        i += 1
        if text == "-delete":
            call.walk.doubt()
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf") and i < len(args):
            call.write(args[i])
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            begin = i
            while i < len(args) and args[i].text not in (";", "+"):
                i += 1
            words = [_with_mark(word, "{}") for word in args[begin:i]]
            scope = call.scope.copy()
            if text.endswith("dir"):
                scope.enter(None)
            run(call.again(words, scope))
        elif not args[i - 1].known and args[i - 1].loose and i > 1:
            call.walk.doubt()
    return None


def shell(call: Call) -> str | None:
    """`bash -c TEXT`, `bash FILE`, `bash <<EOF`."""
    words = call.args
    text_given = False
    while words and len(words[0].text) > 1 and words[0].text[0] in "-+" and words[0].known:
        option = words[0].text
        words = words[1:]
        if option == "--":
            break
        if option.startswith("--"):
            if option in ("--rcfile", "--init-file"):
                words = words[1:]
            elif option in ("--version", "--help"):
                return None
            continue
        if "n" in option[1:] and option[0] == "-" and "o" not in option:
            return None  # it only checks the syntax
        text_given = text_given or "c" in option
        if option[-1] in "oO":
            words = words[1:]
    scope = _child(call)
    if text_given:
        if not words or not words[0].known:
            return _unknown(call)
        scope.positional = words[2:]
        return call.walk.script(words[0].text, scope)
    if words and words[0].text != "-":
        scope.positional = words[1:]
        path = call.path(words[0])
        text = call.walk.made.get(path) if path else None
    else:
        text = call.stdin_text() if call.stdin and call.stdin.path is None else None
    return _unknown(call) if text is None else call.walk.script(text, scope)


def _child(call: Call) -> Scope:
    scope = call.scope.copy()
    scope.functions = {}
    scope.dead = False
    scope.variables.update(call.env)
    return scope


def eval_(call: Call) -> str | None:
    if not all(arg.known for arg in call.args):
        return _unknown(call)
    return call.walk.script(" ".join([arg.text for arg in call.args]), call.scope)


def trap(call: Call) -> str | None:
    if len(call.args) > 1 and not call.args[0].text.startswith("-"):
        if not call.args[0].known:
            return _unknown(call)
        call.walk.script(call.args[0].text, call.walk.fork(call.scope))
    return ""


def _unknown(call: Call) -> str | None:
    call.walk.doubt()
    return None


BUILTINS: dict[str, Handler] = {
    "cd": cd, "chdir": cd, "pushd": pushd, "popd": popd, "pwd": pwd,
    "export": declare, "declare": declare, "local": declare, "readonly": declare,
    "typeset": declare, "read": read, "mapfile": read, "readarray": read, "unset": unset,
    "set": set_, "shift": shift, "shopt": shopt, "getopts": read, "let": declare,
    "exit": leave, "return": leave, "break": leave, "continue": leave,
    ":": quiet, "true": quiet, "false": quiet, "test": quiet, "[": quiet, "sleep": quiet,
    "wait": quiet, "umask": quiet, "ulimit": quiet, "hash": quiet, "alias": quiet,
    "echo": echo, "printf": printf, "cat": cat, "basename": basename, "dirname": dirname,
    "seq": seq, "env": env, "command": command, "builtin": command, "sudo": sudo, "doas": sudo,
    "exec": exec_, "xargs": xargs, "find": find, "gfind": find, "eval": eval_, "trap": trap,
    "bash": shell, "sh": shell, "zsh": shell, "dash": shell, "ksh": shell,
    "nice": prefix("n", ("--adjustment",)), "nohup": prefix(), "setsid": prefix(),
    "time": prefix("of", ("--output", "--format")), "ionice": prefix("cnpPu", ("--class",)),
    "timeout": prefix("sk", ("--signal", "--kill-after"), operands=1),
    "gtimeout": prefix("sk", operands=1),
    "stdbuf": prefix("ioe", ("--input", "--output", "--error")), "chronic": prefix(),
    "unbuffer": prefix(), "caffeinate": prefix("tw"), "taskset": prefix("p", operands=1),
    "npx": prefix("pc", ("--package",)), "bunx": prefix(), "pnpx": prefix(),
    "uvx": prefix("p", ("--python", "--from", "--with")),
}  # fmt: skip
