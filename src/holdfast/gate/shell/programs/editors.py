"""Commands that change files in place, or write where an option says."""

from __future__ import annotations

from holdfast.gate.shell.programs.operands import scan
from holdfast.gate.shell.programs.sed_and_awk import awk_writes, sed_writes
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.command_calls import Call, Handler


def sed(call: Call) -> str | None:
    args = call.args
    for number, arg in enumerate(args[:-1]):
        if arg.text == "-i" and args[number + 1].text == "" and args[number + 1].known:
            args = args[: number + 1] + args[number + 2 :]  # as on macOS: no suffix
            break
    found = scan(args, "efl", ("--expression", "--file", "--line-length"), attached="i")
    scripts = found.values("-e", "--expression")
    files = found.operands
    if not scripts and not found.has("-f", "--file", "--version", "--help"):
        scripts, files = files[:1], files[1:]
    for script in scripts:
        paths, certain = sed_writes(script.text) if script.known else ([], True)
        for path in paths:
            call.walk.write(path, call.scope)
        if not certain or script.loose:
            call.walk.doubt()
    if found.has("-f", "--file"):
        call.walk.doubt()
    if not found.has("-i", "--in-place"):
        return None
    suffixes = found.values("-i", "--in-place")
    in_place(call, files, suffixes[-1].text if suffixes else "")
    return None


def in_place(call: Call, files: list[Arg], suffix: str) -> None:
    """Files that an editor changes, with the backups that it leaves beside them."""
    for file in files:
        call.write(file)
        if suffix and file.known and not file.unmatched:
            folder, slash, name = file.text.rpartition("/")
            copy = suffix.replace("*", name) if "*" in suffix else name + suffix
            call.walk.write(copy if "/" in copy else folder + slash + copy, call.scope)


def perl(call: Call) -> str | None:
    """`perl -i -pe …` edits its files; any other Perl may do anything."""
    args = call.args
    suffix: str | None = None
    code = False
    i = 0
    while i < len(args) and args[i].text.startswith("-") and len(args[i].text) > 1:
        text = args[i].text
        i += 1
        if text == "--":
            break
        j = 1
        while j < len(text):
            c = text[j]
            j += 1
            if c == "i":
                suffix = text[j:]
                break
            if c in "eE":
                code = True
                i += j == len(text)
                break
            if c in "IMmF":
                i += j == len(text) and c == "I"
                break
            if c in "0l":
                while j < len(text) and text[j] in "0123456789xabcdefABCDEF" and text[j] != "e":
                    j += 1
    if suffix is None or not code:
        call.walk.doubt()
        return None
    in_place(call, args[i:], suffix)
    return None


def awk(call: Call) -> str | None:
    found = scan(
        call.args, "FvfiEl", ("--field-separator", "--assign", "--file", "--include"),
        first_ends=True,
    )  # fmt: skip
    files = found.operands
    inplace = any(a.text == "inplace" for a in found.values("-i", "--include"))
    if found.has("-f", "--file", "-E"):
        call.walk.doubt()
    elif files:
        paths, certain = awk_writes(files[0].text) if files[0].known else ([], True)
        for path in paths:
            call.walk.write(path, call.scope)
        if not certain or files[0].loose:
            call.walk.doubt()
        files = files[1:]
    if inplace:
        suffix = ""
        for setting in found.values("-v", "--assign"):
            name, _, value = setting.text.partition("=")
            if name.rpartition("::")[2].lower() in ("suffix", "inplace_suffix"):
                suffix = value
        in_place(call, [f for f in files if "=" not in f.text], suffix)
    return None


def output_option(
    names: tuple[str, ...], takes: str, long_takes: tuple[str, ...] = (), unsure: bool = False
) -> Handler:
    """A command that writes the file after an option, and nothing else (or unknown files)."""

    def handler(call: Call) -> str | None:
        found = scan(call.args, takes, long_takes)
        for target in found.values(*names):
            if target.text != "-":
                call.write(target)
        if unsure and not found.values(*names):
            call.walk.doubt()
        return None

    return handler


def compiler(call: Call) -> str | None:
    for number, arg in enumerate(call.args):
        if arg.text == "-o" and number + 1 < len(call.args):
            call.write(call.args[number + 1])
            return None
        if arg.text.startswith("-o") and len(arg.text) > 2:
            call.write(arg.part(2))
            return None
    if not any(arg.text in ("--version", "-E", "-fsyntax-only", "-v") for arg in call.args):
        call.walk.doubt()
    return None


CURL_TAKES = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
CURL_LONG = (
    "--output", "--request", "--header", "--data", "--data-raw", "--data-binary", "--user",
    "--user-agent", "--url", "--max-time", "--connect-timeout", "--retry", "--form", "--proxy",
    "--cookie", "--cookie-jar", "--dump-header", "--output-dir", "--write-out", "--cacert",
    "--referer", "--data-urlencode", "--retry-delay", "--resolve", "--upload-file", "--range",
)  # fmt: skip


def curl(call: Call) -> str | None:
    found = scan(call.args, CURL_TAKES, CURL_LONG)
    folder = found.value("--output-dir")
    targets = found.values("-o", "--output")
    if found.has("-O", "--remote-name", "--remote-name-all"):
        targets += [_remote_name(url) for url in [*found.operands, *found.values("--url")]]
    for target in targets:
        if target.text == "-":
            continue
        if folder is not None and not target.text.startswith("/"):
            known = target.known and folder.known
            target = Arg(folder.text.rstrip("/") + "/" + target.text, known)
        call.write(target)
    for target in found.values("-c", "--cookie-jar", "-D", "--dump-header"):
        if target.text != "-":
            call.write(target)
    if found.has("-K", "--config", "-J", "--remote-header-name"):
        call.walk.doubt()
    return None


def _remote_name(url: Arg) -> Arg:
    name = url.text.partition("?")[0].partition("#")[0].rpartition("/")[2]
    return Arg(name, url.known and bool(name))


def wget(call: Call) -> str | None:
    takes = "OPoaUTtQeilADRX"
    values = (
        "--output-document",
        "--directory-prefix",
        "--output-file",
        "--header",
        "--user-agent",
    )
    found = scan(call.args, takes, values)
    for log in found.values("-o", "--output-file", "-a", "--append-output"):
        call.write(log)
    target = found.value("-O", "--output-document")
    if found.has("--spider", "--version", "--help"):
        return None
    if target is not None:
        if target.text != "-":
            call.write(target)
    else:
        call.walk.doubt()  # it chooses another name if the file exists, or if the server says so
    return None


class Formatter:
    """With which options a formatter changes files, and with which it does not."""

    __slots__ = ("must", "never", "skip", "takes", "values")

    def __init__(
        self,
        must: tuple[str, ...] = (),
        never: tuple[str, ...] = (),
        takes: str = "",
        values: tuple[str, ...] = (),
        skip: int = 0,
    ) -> None:
        self.must = must
        self.never = never
        self.takes = takes
        self.values = values
        self.skip = skip

    def __call__(self, call: Call) -> str | None:
        found = scan(call.args, self.takes, self.values)
        if found.has("--version", "--help", "-V", *self.never):
            return None
        if self.must and not found.has(*self.must):
            return None
        rewrite(call, found.operands[self.skip :])
        return None


def rewrite(call: Call, files: list[Arg]) -> None:
    """Files given by name are known; a folder or a pattern means any of its files."""
    if not files:
        call.walk.doubt()
    for file in files:
        magic = any(c in file.text for c in "*?{[!") and not call.walk.file_exists(call.path(file))
        if magic or file.text == "-" or call.walk.is_folder(call.path(file)):
            if file.text != "-":
                call.walk.doubt()
        else:
            call.write(file)


def ruff(call: Call) -> str | None:
    found = scan(call.args, "e", (
        "--config", "--select", "--ignore", "--line-length", "--target-version", "--exclude",
        "--extend-select", "--output-format", "--range", "--output-file", "--cache-dir",
        "--stdin-filename",
    ))  # fmt: skip
    if not found.operands:
        return None
    verb, files = found.operands[0].text, found.operands[1:]
    for target in found.values("--output-file"):
        call.write(target)
    if found.has("--diff", "--check"):
        return None
    fixes = verb == "check" and found.has("--fix", "--fix-only", "--add-noqa")
    if verb == "format" or fixes:
        rewrite(call, files)
    elif verb not in ("check", "rule", "version", "config", "linter", "help"):
        call.walk.doubt()
    return None


def rustfmt(call: Call) -> str | None:
    found = scan(call.args, "", ("--config", "--config-path", "--edition", "--emit"))
    emit = found.value("--emit")
    if found.has("--check", "--version", "--help") or (emit is not None and emit.text == "stdout"):
        return None
    rewrite(call, found.operands)
    call.walk.doubt()  # it goes on to the modules that the file names
    return None


def yq(call: Call) -> str | None:
    found = scan(call.args, "opI", ("--output-format", "--input-format", "--indent"))
    if found.has("-i", "--inplace", "-y") and found.has("-i", "--inplace"):
        files = found.operands
        if files and files[0].text in ("eval", "e", "eval-all", "ea"):
            files = files[1:]
        rewrite(call, files[1:])
    return None


def tar(call: Call) -> str | None:
    args = call.args
    if args and not args[0].text.startswith("-") and args[0].known:
        args = [Arg("-" + args[0].text), *args[1:]]
    found = scan(args, "fCTXbgKLNV", ("--file", "--directory", "--exclude", "--files-from"))
    if found.has("-t", "--list", "--version"):
        return None
    archive = found.value("-f", "--file")
    if found.has("-c", "--create", "-r", "--append", "-u", "--update") and archive is not None:
        folder = found.value("-C", "--directory")
        if folder is not None and not archive.text.startswith("/") and found.operands == []:
            call.walk.doubt()
        if archive.text != "-":
            call.write(archive)
        return None
    if not found.has("-c", "--create"):
        call.walk.doubt()
    return None


def zip_(call: Call) -> str | None:
    found = scan(call.args, "xinbt")
    if found.operands and found.operands[0].text != "-":
        name = found.operands[0]
        dotted = "." in name.text.rpartition("/")[2]
        call.write(name if dotted or not name.known else Arg(name.text + ".zip"))
    if found.has("-m"):
        call.walk.doubt()
    return None


def stdout_option(*names: str) -> Handler:
    """A command that changes files unless told to print."""

    def handler(call: Call) -> str | None:
        if not scan(call.args).has(*names):
            call.walk.doubt()
        return None

    return handler


def python(call: Call) -> str | None:
    """`python -m TOOL …` is that tool; any other Python may do anything."""
    from holdfast.gate.shell.command_calls import run

    words = call.args
    while words and words[0].text in ("-I", "-S", "-B", "-u", "-E", "-s"):
        words = words[1:]
    if len(words) > 1 and words[0].text == "-m" and words[1].text in MODULES:
        return run(call.again(words[1:]))
    if [word.text for word in words] not in (["--version"], ["-V"], ["--help"]):
        call.walk.doubt()
    return None


MODULES = frozenset(["black", "ruff", "isort", "autopep8", "yapf"])

IN_PLACE = ("-i", "--in-place", "--inplace")
WRITE = ("-w", "--write")
CHECK = ("--check", "--diff", "--dry-run")

EDITORS: dict[str, Handler] = {
    "sed": sed, "gsed": sed, "perl": perl, "awk": awk, "gawk": awk, "mawk": awk, "nawk": awk,
    "sort": output_option(("-o", "--output"), "okStT", ("--output", "--key", "--buffer-size",
                                                       "--field-separator")),
    "iconv": output_option(("-o", "--output"), "fto", ("--output", "--from-code", "--to-code")),
    "tree": output_option(("-o",), "LPIo"),
    "pandoc": output_option(("-o", "--output"), "oftr", ("--output", "--from", "--to"), True),
    "gcc": compiler, "cc": compiler, "g++": compiler, "c++": compiler, "clang": compiler,
    "clang++": compiler, "rustc": compiler,
    "curl": curl, "wget": wget, "tar": tar, "bsdtar": tar, "zip": zip_, "yq": yq,
    "gzip": stdout_option("-c", "--stdout", "-l", "-t"), "zcat": stdout_option("-c", ""),
    "gunzip": stdout_option("-c", "--stdout", "-l", "-t"),
    "unzip": stdout_option("-l", "-p", "-t", "-Z", "-v"),
    "prettier": Formatter(WRITE, ("--check", "-c", "-l"), "", ("--config", "--parser",
                                                               "--ignore-path", "--plugin")),
    "eslint": Formatter(("--fix",), ("--fix-dry-run",), "cfo", ("--config", "--ext", "--rule",
                        "--format", "--max-warnings", "--ignore-pattern", "--output-file")),
    "stylelint": Formatter(("--fix",), (), "", ("--config",)),
    "black": Formatter((), (*CHECK, "-c"), "ltc", ("--line-length", "--target-version",
                       "--config", "--exclude", "--include")),
    "isort": Formatter((), (*CHECK, "-c", "--check-only", "-d", "--stdout"), "pl",
                       ("--profile", "--line-length")),
    "autopep8": Formatter(IN_PLACE, ("--diff", "-d"), "pj", ("--max-line-length", "--select",
                          "--ignore")),
    "yapf": Formatter(IN_PLACE, ("--diff", "-d"), "el", ("--style",)),
    "gofmt": Formatter(("-w",), (), "r"), "goimports": Formatter(("-w",), ()),
    "gofumpt": Formatter(("-w",), ()), "shfmt": Formatter(WRITE, (), "i", ("--indent",)),
    "clang-format": Formatter(("-i",), ("--dry-run", "-n"), "", ("--style", "-style")),
    "stylua": Formatter((), ("--check",), "", ("--config-path",)),
    "ruff": ruff, "rustfmt": rustfmt, "python": python, "python3": python,
}  # fmt: skip
