"""Completions for bash, zsh and fish, made from the table of commands.

bash   source <(holdfast completion bash)
zsh    holdfast completion zsh > a folder of $fpath, as _holdfast
fish   holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""

from __future__ import annotations

from holdfast.cli import DONE
from holdfast.cli.commands import COMMANDS, FILE, FOLDER, GLOBALS, TEXT
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


def _with_value(kind: str) -> str:
    """The options that are followed by a value of one kind, as a pattern of bash."""
    options = [option for command in COMMANDS for option in command.options]
    wanted = [
        option
        for option in (*GLOBALS, *options)
        if option.placeholder and not option.maybe and option.value == kind
    ]
    return "|".join(dict.fromkeys(_spellings(wanted)))


def bash() -> str:
    """The script for bash. It needs nothing but bash itself, also the old one of macOS."""
    cases = "\n".join(
        f"        {command.name}) options='{' '.join(_spellings(command.options))}'"
        f" words='{_words(command)}' ;;"
        for command in COMMANDS
    )
    names = " ".join(command.name for command in COMMANDS)
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
            *) if [[ -z $command ]]; then command=${{COMP_WORDS[at]}}; fi ;;
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
        '') words='{names}' ;;
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


def _words(command: Command) -> str:
    """What may follow a command: a list, or a colon for files."""
    return ":" if command.takes in (FILE, "command", TEXT) else command.takes


def zsh() -> str:
    """The script for zsh."""
    names = "\n".join(
        f"        '{command.name}:{_zsh_text(command.summary)}'" for command in COMMANDS
    )
    cases = "\n".join(_zsh_case(command) for command in COMMANDS)
    return f"""\
#compdef holdfast
# zsh completion for holdfast: put it into a folder of $fpath as _holdfast
_holdfast() {{
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a globals=(
{_zsh_options(GLOBALS)}
    )
    local -a commands=(
{names}
    )
    _arguments -C $globals '1: :->command' '*:: :->words'
    case $state in
        command) _describe -t commands command commands ;;
        words)
            case $words[1] in
{cases}
            esac ;;
    esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _holdfast "$@"
else
    compdef _holdfast holdfast
fi
"""


def _zsh_case(command: Command) -> str:
    rest = {
        FILE: "'*:path:_files'",
        "command": "'(-)1:command: _command_names -e' '*::argument:_normal'",
        "": "",
        TEXT: "'1:word: '",
    }.get(command.takes, f"'1:word:({command.takes})'")
    options = _zsh_options(command.options).splitlines()
    words = " \\\n".join([f"_arguments $globals {rest}".rstrip(), *options])
    return f"                {command.name}) {words} ;;"


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


def fish() -> str:
    """The script for fish."""
    lines = [
        "# fish completion for holdfast: ~/.config/fish/completions/holdfast.fish",
        "complete -c holdfast -f",
        *(_fish_option("", option) for option in GLOBALS),
    ]
    for command in COMMANDS:
        lines.append(
            f"complete -c holdfast -n __fish_use_subcommand -a {command.name}"
            f" -d {_fish_text(command.summary)}"
        )
        seen = f" -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes == FILE:
            lines.append(f"complete -c holdfast{seen} -F")
        elif command.takes == "command":
            lines.append(f"complete -c holdfast{seen} -F -a '(__fish_complete_command)'")
        elif command.takes and command.takes != TEXT:
            lines.append(f"complete -c holdfast{seen} -a '{command.takes}'")
        lines += [_fish_option(seen, option) for option in command.options]
    return "\n".join(lines)


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
