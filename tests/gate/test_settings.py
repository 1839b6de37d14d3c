"""holdfast.toml: its valid settings, the cost of reading it, and the messages about mistakes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.cli import exit_code
from holdfast.core.root_errors import SettingsError
from holdfast.gate.config.settings import ACROSS_CHOICES, SHELL_CHOICES, Settings
from holdfast.gate.config.settings_file import KEYS, TOP
from holdfast.manager.files.plain_toml import plain_tables

DEFAULTS = Settings()


def put(root: Path, text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    (root / "holdfast.toml").write_bytes(data)
    return str(root)


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    found = Settings.load(str(tmp_path))
    assert found == DEFAULTS
    assert (found.shell, found.wake, found.sandbox_write) == ("lease", True, ())
    assert (found.retry_seconds, found.timeout_seconds, found.idle_seconds) == (180, 240, 30)
    assert (found.hold_seconds, found.foreign_seconds, found.notify) == (20, 1800, ())
    assert found.problem == ""


def test_the_hooks_own_deadline_is_ten_seconds_before_the_clients() -> None:
    assert Settings().deadline_seconds == 230
    assert Settings(timeout_seconds=60).deadline_seconds == 50


def test_everything_can_be_set(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        '# ours\nnotify = ["notify-send", "Holdfast says"]  # to all\n\n'
        '[gate]\nshell = "enforce"  # strict\nretry_seconds = 2.5\nhold_seconds = 0\n'
        "timeout_seconds = 60\nidle_seconds = 0\nforeign_seconds = 0.5\nwake = false\n\n"
        '[sandbox]\nwrite = ["~/.cache/pip", "log"]\n',
    )
    assert Settings.load(root) == Settings(
        shell="enforce", retry_seconds=2.5, hold_seconds=0, timeout_seconds=60, idle_seconds=0,
        foreign_seconds=0.5, wake=False, sandbox_write=("~/.cache/pip", "log"),
        notify=("notify-send", "Holdfast says"),
    )  # fmt: skip


def test_what_is_not_set_has_its_default(tmp_path: Path) -> None:
    assert Settings.load(put(tmp_path, "[gate]\nwake = false\n")) == Settings(wake=False)
    assert Settings.load(put(tmp_path, 'notify = ["x"]\n')) == Settings(notify=("x",))
    assert Settings.load(put(tmp_path, "notify = []\n")) == DEFAULTS
    assert Settings.load(put(tmp_path, "")) == DEFAULTS
    assert Settings.load(put(tmp_path, "[sandbox]\n")) == DEFAULTS


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("[gate]\nretry_second = 5\n", "gate.retry_second", 2),
        ("[gate]\n\nshell = 'guards'\n", "gate.shell", 3),
        ("[gate]\nshell = true\n", "gate.shell", 2),
        ("[gate]\nwake = 1\n", "gate.wake", 2),
        ('[gate]\nwake = "true"\n', "gate.wake", 2),
        ("[gate]\nretry_seconds = true\n", "gate.retry_seconds", 2),
        ("[gate]\nretry_seconds = 0\n", "gate.retry_seconds", 2),
        ("[gate]\nretry_seconds = -1\n", "gate.retry_seconds", 2),
        ("[gate]\nretry_seconds = nan\n", "gate.retry_seconds", 2),
        ("[gate]\nretry_seconds = inf\n", "gate.retry_seconds", 2),
        ("[gate]\ntimeout_seconds = 12\n", "gate.timeout_seconds", 2),
        ("[gate]\ntimeout_seconds = 60.5\n", "gate.timeout_seconds", 2),
        ("[gate]\ntimeout_seconds = 99999\n", "gate.timeout_seconds", 2),
        ("[gate]\nidle_seconds = [30]\n", "gate.idle_seconds", 2),
        ("[sandbox]\nwrite = 'log'\n", "sandbox.write", 2),
        ("[sandbox]\nwrite = ['log', 1]\n", "sandbox.write", 2),
        ("[sandbox]\nwrite = ['']\n", "sandbox.write", 2),
        ("gate.shell = 'no'\n", "gate.shell", 1),
        ("# x\n[gates]\nshell = 'off'\n", "gates", 2),
        ("gate = 3\n", "gate", 1),
        ("shell = 'off'\n", "shell", 1),
        ('shell = "off"\n', "shell", 1),
        ("[gate]\nhold_seconds = -1\n", "gate.hold_seconds", 2),
        ("[gate]\nhold_seconds = 3601\n", "gate.hold_seconds", 2),
        ("[gate]\nforeign_seconds = 0\n", "gate.foreign_seconds", 2),
        ("[gate]\nforeign_seconds = 864001\n", "gate.foreign_seconds", 2),
        ("[gate]\nforeign_second = 60\n", "gate.foreign_second", 2),
        ('# x\nnotfy = ["x"]\n', "notfy", 2),
        ('notify = "notify-send"\n', "notify", 1),
        ("\nnotify = [1]\n", "notify", 2),
        ('notify = ["x", ""]\n', "notify", 1),
        ("notify = ['\\0', \"\\u0000\"]\n", "notify", 1),
        ("notify = true\n[gate]\nwake = true\n", "notify", 1),
        ('[gate]\nwake = true\n[notify]\ncommand = "x"\n', "notify", 3),
        ('[[notify]]\ncommand = "x"\n', "notify", 1),
        ('[gate]\nwake = true\nnotify = ["x"]\n', "gate.notify", 3),
        ('# x\n[""]\na = 1\n', "", 2),
    ],
)
def test_an_invalid_value_is_reported_with_its_line_and_key(
    tmp_path: Path, text: str, key: str, line: int
) -> None:
    root = put(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        Settings.load(root)
    error = caught.value
    assert error.code == "E_SETTINGS"
    assert exit_code(error) == 2
    assert (error.fields["key"], error.fields["line"]) == (key, line)
    assert error.fields["file"] == f"{root}/holdfast.toml"
    assert f"holdfast.toml, line {line}: " in error.message
    assert error.hint


@pytest.mark.parametrize("text", ["[gate\n", "[gate]\nwake = \n", "[gate]\n[gate]\n", "\x01\n"])
def test_invalid_toml_is_reported_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"line \d+: this is not TOML"):
        Settings.load(put(tmp_path, text))


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="line 2: this is not UTF-8"):
        Settings.load(put(tmp_path, b"[gate]\nshell = '\xff'\n"))


def test_a_folder_of_that_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(str(tmp_path))


def test_a_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="larger than"):
        Settings.load(put(tmp_path, "# " + "x" * 300_000))


def test_a_hook_goes_on_with_what_is_right_and_carries_what_is_wrong(tmp_path: Path) -> None:
    root = put(tmp_path, '[gate]\nshell = "enforce"\nretry_seconds = "x"\nwakes = true\n')
    found = Settings.load(root, lenient=True)
    assert (found.shell, found.retry_seconds) == ("lease", 180), "enforce is a synonym of lease"
    assert "line 3" in found.problem
    assert "line 4" in found.problem


@pytest.mark.parametrize("data", [b"[gate\n", b"\xff\xfe", b"a" * 300_000])
def test_a_hook_goes_on_with_the_defaults_if_nothing_can_be_read(
    tmp_path: Path, data: bytes
) -> None:
    found = Settings.load(put(tmp_path, data), lenient=True)
    assert found.problem
    assert found == Settings(problem=found.problem)


@given(st.binary(max_size=300))
@example(b"[gate]\r\nwake = true\r\n")
@example('[gate]\nshell = "\u2028"'.encode())
def test_a_lenient_reading_never_raises(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    root = tmp_path_factory.mktemp("settings")
    assert isinstance(Settings.load(put(root, data), lenient=True), Settings)


def test_the_guide_has_every_key_with_its_default() -> None:
    guide = (Path(__file__).parents[2] / "docs/init.md").read_text()
    rows = re.findall(r"^\| `(?:\w+\.)?(\w+)` \| `([^`]+)` \|", guide, re.M)
    shown = {key: tomllib.loads(f"x = {default}")["x"] for key, default in rows}
    names = {"write": "sandbox_write"}
    assert {names.get(key, key) for key in shown} == set(Settings.__slots__) - {"problem"}
    for key, default in shown.items():
        found = getattr(DEFAULTS, names.get(key, key))
        assert found == (tuple(default) if isinstance(default, list) else default)


def test_the_page_about_the_gate_shows_the_defaults_as_a_file(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    [text] = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    meant = tomllib.loads(text)
    assert len(meant.pop("gate")) + len(meant.pop("sandbox")) + len(meant) == len(
        set(Settings.__slots__) - {"problem"}
    )
    assert Settings.load(put(tmp_path, text)) == DEFAULTS


def test_the_page_about_the_gate_has_every_key_in_its_table_and_every_choice() -> None:
    page = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    section = page.partition("\n## Settings\n")[2].partition("\n## ")[0]
    [text] = re.findall(r"^```toml\n(.*?)^```", section, re.M | re.S)
    tables = tomllib.loads(text)
    top = {key for key, value in tables.items() if not isinstance(value, dict)}
    inside = {table: set(keys) for table, keys in tables.items() if table not in top}
    assert {TOP: top, **inside} == {table: set(keys) for table, keys in KEYS.items()}
    for key, choices in (("shell", SHELL_CHOICES), ("across_worktrees", ACROSS_CHOICES)):
        lines = "\n".join(line for line in section.splitlines() if f"{key} = " in line)
        assert [one for one in choices if not re.search(rf"\b{one}\b", lines)] == []


def test_what_belongs_above_the_tables_is_said_to(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no 'notify' in \[gate\], only above all tables"):
        Settings.load(put(tmp_path, '[gate]\nnotify = ["x"]\n'))


# The reader for plain files

PARTS = st.sampled_from(
    ["[gate]", "[sandbox]", "notify", "gate", "work", "[[gate]]", "[a.b]", "[ gate ]", "shell",
     "wake", "a-b_1", "a.b",
     '"wake"', " = ", "=", "true", "false", "True", "180", "007", "0", "1_000", "+1", "-3", "1.5",
     "1.", "1e3", "0x1f", '"guard"', '"a # b"', "'x'", '""', '""""', '"""a"""', '"\\n"', "[]",
     '["a", "b"]', '["a",]', '["a" "b"]', "[1]", '["a"', "#", "# remark", " ", "\t", "\n", "\n\n",
     "\r\n", "é", "\x7f", "{a=1}", "1979-05-27", "nan"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14).map("".join))
@example('[gate]\nshell = "guard"\nretry_seconds = 180\n[sandbox]\nwrite = ["a"]\n')
@example("[gate]\nwake = true # yes\n")
@example('[gate]\nwrite = ["a",]\n')
@example('[gate]\na = """"\n')
@example('notify = ["a", "b"]\n[gate]\nwake = true\n')
@example("gate = 1\n[gate]\n")
@example("notify = 1\nnotify = 2\n")
@example("[gate]\na = 1\na = 2\n")
def test_the_plain_reader_agrees_with_the_real_one_or_leaves_it_alone(text: str) -> None:
    found = plain_tables(text)
    if found is not None:
        meant = tomllib.loads(text)
        meant.pop("work", None)
        assert found == meant


WORK_PARTS = st.sampled_from(
    ["[work]\n", "[work.analyze]\n", "[work . x]\n", "[[work.x]]\n", "[works]\n", "[gate]\n",
     "  [sandbox] # x\n", "slots = 4\n", "wake = true\n", 'shell = "off"\n', 'prompt = """\n',
     '"""\n', "prompt = '''\n", "'''\n", 'a = """one""" # x\n', 'b = """x\\"""\n', 'c = \'"""\'\n',
     'd = """four""""\n', '# """\n', "command = [\n", '  "claude",\n', "  [1],\n", "[1]\n",
     '["gate"]\n', "]\n", "e = {a = 1}\n", "f = 1 # '''\n", "g.h = 2\n", "work.slots = 1\n",
     'notify = ["x"]\n', "work = 3\n", "\u200d\n", "\n"]
)  # fmt: skip


@given(st.lists(WORK_PARTS, max_size=10).map("".join))
@example('[gate]\nwake = true\n[work]\nprompt = """\n[gate]\nwake = false\n"""\n')
@example('[work.analyze]\ncommand = [\n["a"],\n]\n[gate]\nwake = true\n')
@example('[work]\n["gate"]\n')
@example("[work]\n[[gate]]\n")
def test_the_plain_reader_passes_over_the_tables_of_work(text: str) -> None:
    found = plain_tables(text)
    if found is None:
        return
    assert "work" not in found
    try:
        meant = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert "[work" in text
    else:
        meant.pop("work", None)
        assert found == meant


WORK_TEXT = """
notify = ["tell"]

[gate]
wake = false

[work]
slots = 8
models = [
    "app/models/{model}.rb",   # and more
    ["nested"],
]

[work.analyze]
prompt = '''
Look at {screen}. \U0001f469\u200d\U0001f680
[gate]
wake = true
'''
[sandbox]
write = ["log"]
[work.apply]
command = ["claude", "-p", "{prompt}"]
prompt = '''one line'''  # no more
"""


def test_the_settings_of_work_change_nothing_for_a_hook(tmp_path: Path) -> None:
    found = Settings.load(put(tmp_path, WORK_TEXT), lenient=True)
    assert found == Settings(wake=False, sandbox_write=("log",), notify=("tell",))
    assert Settings.load(str(tmp_path)) == found


@pytest.mark.parametrize(
    "work",
    ["[work]\nslots = many!\n", "[work]\nslot = 1\n", "[work]\n[work]\n", "[work.x]\n= 3\n",
     "work = 3\n", "[work]\nprompt = \"\"\"\nx\\\"\"\"\n\"\"\"\n"],
)  # fmt: skip
def test_what_is_wrong_in_work_is_no_problem_of_the_gate(tmp_path: Path, work: str) -> None:
    found = Settings.load(put(tmp_path, f'notify = ["x"]\n{work}[gate]\nwake = false\n'))
    assert found == Settings(wake=False, notify=("x",))


def test_the_plain_reader_reads_what_people_write() -> None:
    text = (
        '# settings\nnotify = ["a", "b"]\n'
        '[gate]\nshell = "guard" # or not\nretry_seconds = 180\nidle_seconds = 2.5\n'
        'wake = false\n\n[sandbox]\n  write = [ "~/.cache", "log" ]\n'
    )
    assert plain_tables(text) == tomllib.loads(text)
    assert plain_tables("[gate]\nwake = true") == {"gate": {"wake": True}}
    assert plain_tables('notify = ["a"]') == {"notify": ["a"]}


@pytest.mark.parametrize(
    "text", [None, 'notify = ["x"]\n[gate]\nshell = "guard"\nwake = true\n', WORK_TEXT]
)
def test_reading_imports_nothing_costly(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        put(tmp_path, text)
    source = str(Path(holdfast.__file__).parent.parent)
    script = (
        f"import sys; sys.path.insert(0, {source!r})\n"
        "from holdfast.gate.config.settings import Settings\n"
        f"Settings.load({str(tmp_path)!r})\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"tomllib", "re", "json", "typing", "datetime"} & set(done.stdout.split())
