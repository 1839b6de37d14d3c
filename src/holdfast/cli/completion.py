"""Completions for bash, zsh and fish, made from the tables of commands.

A command of a family has several words, so each script walks a tree of words. A word may be a
command in one place and the beginning of one in another.

bash   source <(holdfast completion bash)
zsh    holdfast completion zsh > a folder of $fpath, as _holdfast
fish   holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""

from __future__ import annotations

from holdfast.cli import DONE
from holdfast.cli.commands import FAMILIES, FILE, FOLDER, GLOBALS, NAME, TEXT, everything
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.cli.commands import Command, Option
    from holdfast.cli.parser import Call


def completion(call: Call) -> int:
    """Print the script for one shell."""
    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    shell = call.words[0] if len(call.words) == 1 else ""
    if shell not in makers:
        raise UsageError(
            f"completion needs one shell, not {' '.join(call.words)!r}",
            hint="holdfast completion bash, zsh or fish",
        )
    script = makers[shell]()
    if call.flag("json"):
        document({"shell": shell, "script": script})
    else:
        out(script.rstrip("\n"))
    return DONE


def _spellings(options: Iterable[Option]) -> list[str]:
    found: list[str] = []
    for option in options:
        found += [option.short] if option.short else []
        found += [f"--{option.name}"] if option.name else []
    return found


class Step:
    """The words that may follow some words; none if those are a command."""

    __slots__ = ("command", "next", "summary", "words")

    def __init__(self, words: tuple[str, ...], summary: str = "") -> None:
        self.words = words
        self.summary = summary
        self.command: Command | None = None
        self.next: dict[str, Step] = {}

    def below(self) -> list[Step]:
        """This step and all steps below it."""
        return [self, *(step for one in self.next.values() for step in one.below())]

    @property
    def name(self) -> str:
        return self.words[-1]


def _first_step() -> Step:
    """The root of the tree of all commands."""
    first = Step(())
    for command in everything():
        step = first
        for word in command.name.split():
            step = step.next.setdefault(word, Step((*step.words, word)))
        step.command, step.summary = command, command.summary
    for family in FAMILIES:
        first.next[family.name].summary = family.summary
    for step in first.below():
        if step.words and not step.summary:
            step.summary = ", ".join(step.next)
    return first


def _with_value(kind: str) -> str:
    """The options that take a value of one kind, as a pattern of bash."""
    options = [option for command in everything() for option in command.options]
    wanted = [
        option
        for option in (*GLOBALS, *options)
        if option.placeholder and not option.maybe and option.value == kind
    ]
    return "|".join(dict.fromkeys(_spellings(wanted)))


def bash() -> str:
    """The script for bash. It needs only bash itself, and works in the old one of macOS."""
    first = _first_step()
    steps = first.below()
    cases = "\n".join(_bash_case(step) for step in steps)
    groups = "|".join(f"'{' '.join(step.words)}'" for step in steps if not step.command)
    return f"""\
# bash completion for holdfast: source <(holdfast completion bash)
_holdfast() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command= options= words= inner=0 at
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${{COMP_WORDS[at]}} in
            -C|--store) ((at++)) ;;
            --) if [[ $command == run ]]; then inner=$((at + 1)); break; fi ;;
            -*) ;;
            *) case $command in
                {groups}) command="${{command:+$command }}${{COMP_WORDS[at]}}" ;;
            esac ;;
        esac
    done
    if ((inner)); then
        if ((COMP_CWORD == inner)); then
            COMPREPLY=($(compgen -c -- "$word"))
        fi
        return
    fi
    case $before in
        {_with_value(FOLDER)}) local IFS=$'\\n'; COMPREPLY=($(compgen -d -- "$word")); return ;;
        {_with_value(FILE)}) return ;;
        {_with_value("text")}) compopt +o default +o bashdefault 2> /dev/null; return ;;
    esac
    case $command in
{cases}
    esac
    if [[ $word == -* ]]; then
        words="$options {" ".join(_spellings(GLOBALS))}"
    elif [[ $words == : ]]; then
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -o bashdefault -F _holdfast holdfast
"""


def _bash_case(step: Step) -> str:
    words, options = " ".join(step.next), ""
    if step.command is not None:
        words, options = _words(step.command), " ".join(_spellings(step.command.options))
    return f"        '{' '.join(step.words)}') options='{options}' words='{words}' ;;"


def _words(command: Command) -> str:
    """The words that may follow a command, or a colon for files."""
    return ":" if command.takes in (FILE, "command", TEXT) else _choices(command)


def _choices(command: Command) -> str:
    """The words of which a command takes one."""
    return " ".join(_first_step().next) if command.takes == NAME else command.takes


def zsh() -> str:
    """The script for zsh."""
    return f"""\
#compdef holdfast
# zsh completion for holdfast: put it into a folder of $fpath as _holdfast
_holdfast() {{
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a globals=(
{_zsh_options(GLOBALS)}
    )
    local -a commands
{_zsh_step(_first_step(), "    ")}
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _holdfast "$@"
else
    compdef _holdfast holdfast
fi
"""


def _zsh_step(step: Step, indent: str) -> str:
    """Offer the words that may come next; after one of them, the words below it."""
    known = "\n".join(
        f"{indent}    '{one.name}:{_zsh_text(one.summary)}'" for one in step.next.values()
    )
    cases = "\n".join(
        f"{indent}            {one.name})\n{_zsh_after(one, f'{indent}                ')} ;;"
        for one in step.next.values()
    )
    return f"""\
{indent}commands=(
{known}
{indent})
{indent}_arguments -C $globals '1: :->command' '*:: :->words'
{indent}case $state in
{indent}    command) _describe -t commands command commands ;;
{indent}    words)
{indent}        case $words[1] in
{cases}
{indent}        esac ;;
{indent}esac"""


def _zsh_after(step: Step, indent: str) -> str:
    if step.command is None:
        return _zsh_step(step, indent)
    command = step.command
    rest = {
        FILE: "'*:path:_files'",
        "command": "'(-)1:command: _command_names -e' '*::argument:_normal'",
        "": "",
        TEXT: "'1:word: '",
    }.get(command.takes, f"'1:word:({_choices(command)})'")
    options = _zsh_options(command.options).splitlines()
    return indent + " \\\n".join([f"_arguments $globals {rest}".rstrip(), *options])


def _zsh_options(options: Iterable[Option]) -> str:
    return "\n".join(
        f"        '{'*' * option.many}{spelling}[{_zsh_text(option.help)}]{_zsh_value(option)}'"
        for option in options
        for spelling in _spellings([option])
    )


def _zsh_value(option: Option) -> str:
    if not option.placeholder:
        return ""
    action = {FILE: "_files", FOLDER: "_files -/"}.get(option.value, "")
    return f"{'::' if option.maybe else ':'}{option.placeholder.lower()}:{action}"


def _zsh_text(text: str) -> str:
    text = text.replace("'", "’")
    return text.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


#: Whether the words so far, without options, begin like this; and whether they equal this.
_FISH_FUNCTIONS = """\
function __holdfast_words
    set -l skips no
    for word in (commandline -opc)[2..-1]
        if test $skips = yes
            set skips no
        else if contains -- $word -C --store
            set skips yes
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end
function __holdfast_in
    set -l words (__holdfast_words)
    test "$words[1..$(count $argv)]" = "$argv"
end
function __holdfast_at
    set -l words (__holdfast_words)
    test "$words" = "$argv"
end"""


def fish() -> str:
    """The script for fish."""
    lines = [
        "# fish completion for holdfast: ~/.config/fish/completions/holdfast.fish",
        _FISH_FUNCTIONS,
        "complete -c holdfast -f",
        *(_fish_option("", option) for option in GLOBALS),
    ]
    for step in _first_step().below():
        at = " ".join(("__holdfast_at", *step.words))
        lines += [
            f"complete -c holdfast -n '{at}' -a {one.name} -d {_fish_text(one.summary)}"
            for one in step.next.values()
        ]
        if step.command is not None:
            lines += _fish_command(step.command)
    return "\n".join(lines)


def _fish_command(command: Command) -> list[str]:
    inside = f" -n '__holdfast_in {command.name}'"
    rest = []
    if command.takes == FILE:
        rest.append(f"complete -c holdfast{inside} -F")
    elif command.takes == "command":
        rest.append(f"complete -c holdfast{inside} -F -a '(__fish_complete_command)'")
    elif command.takes and command.takes != TEXT:
        rest.append(f"complete -c holdfast{inside} -a '{_choices(command)}'")
    return [*rest, *(_fish_option(inside, option) for option in command.options)]


def _fish_option(seen: str, option: Option) -> str:
    parts = [f"complete -c holdfast{seen}"]
    parts += [f"-s {option.short[1:]}"] if option.short else []
    parts += [f"-l {option.name}"] if option.name else []
    if option.placeholder and not option.maybe:
        folders = "-x -a '(__fish_complete_directories)'"
        parts.append({FILE: "-r -F", FOLDER: folders}.get(option.value, "-x"))
    return " ".join([*parts, f"-d {_fish_text(option.help)}"])


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
