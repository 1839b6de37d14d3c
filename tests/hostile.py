"""A table of hostile texts, and the small world on disk that they are tried against.

Every row has the expected result of its text: one exact key, or a refusal for a given reason.
`<root>` and `<outside>` in a text are the two folders of the world.

Tests only read the world, so many of them share one copy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTSIDE = "lies outside"
CHARACTER = "contains a character"
LONG = "too long for a path"
LOOP = "loop of symbolic links"
GOES_UP = "goes up from a folder that does not exist"
OWN = "Holdfast's own"
NESTED = "belongs to the ledger of"
NO_FOLDER = "is not a folder"
BLANK = "is blank"
EMPTY = "empty path"
NO_NAME = "no usable name"
NO_PORT = "is not a port"
NOT_GENERIC = "not locked with the generic commands"
BY_HAND = "cannot be locked by hand"
NO_CHARACTER = "not a character"

#: Kinds of keys that only the program itself makes.
INTERNAL_KINDS = sorted(keys.KINDS - {*keys.GENERIC_KINDS, *keys.SERVICE_KINDS})


@dataclass(frozen=True)
class Row:
    """One hostile text. Exactly one of `key` and `refused` is not empty."""

    id: str
    text: str
    key: str = ""
    refused: str = ""


@dataclass(frozen=True)
class World:
    """The folders that the table refers to."""

    root: str
    outside: str

    def text(self, row: Row) -> str:
        """The row's text with the real folders in it."""
        return row.text.replace("<root>", self.root).replace("<outside>", self.outside)


#: In `links/`: the name of each link, and its target.
LINKS = {
    "file": "../app/x.rb",
    "folder": "../app",
    "chain": "chain2",
    "chain2": "./chain3",
    "chain3": "../links/file",
    "absolute": "<root>/app/x.rb",
    "absolute_folder": "<root>/app",
    "roundabout": "../../outside/../repo/app/x.rb",
    "here": ".",
    "root": "..",
    "out_file": "../../outside/secret.txt",
    "out_file_absolute": "<outside>/secret.txt",
    "out_folder": "../../outside",
    "out_folder_absolute": "<outside>",
    "out_parent": "../..",
    "out_top": "/",
    "out_etc": "/etc",
    "out_chain": "out_chain2",
    "out_chain2": "out_file",
    "out_by_folder": "folder/../../outside/secret.txt",
    "out_dangling": "../../outside/nothing",
    "out_dangling_absolute": "/nowhere/at/all",
    "out_proc": "/proc/self/environ",
    "out_device": "/dev/null",
    "dangling": "../app/new.rb",
    "dangling_absolute": "<root>/app/new.rb",
    "dangling_folder": "../later",
    "dangling_chain": "dangling",
    "dangling_up": "missing/../x",
    "self": "self",
    "loop_a": "loop_b",
    "loop_b": "loop_a",
    "loop_below": "loop_below/x",
    "loop_three": "folder/../links/loop_three",
    "ledger": "../.holdfast",
    "ledger_file": "../.holdfast/ledger.db",
    "ledger_new": "../.holdfast/new",
    "nested": "../nested",
    "nested_file": "../nested/inner.txt",
    "line_break": "../new\nline",
    "no_utf8": os.fsdecode(b"../bad\xff"),
    "port:7": "../app/x.rb",
}


def build(home: Path) -> World:
    """Make the world below an empty folder."""
    root, outside = home / "repo", home / "outside"
    for folder in (
        ".holdfast", "app/models", "deep/a/b/c", "links", "nested/.holdfast", "nested/below",
        "res:box", "..odd",
    ):  # fmt: skip
        (root / folder).mkdir(parents=True)
    outside.mkdir()
    (home / "repo-twin").mkdir()
    for file in (
        ".holdfast/ledger.db", "README.md", "app/x.rb", "app/models/user.rb", "deep/a/b/c/f.txt",
        "nested/inner.txt", "nested/below/y", "port:1", "res:box/in", "caf\u00e9.txt",
        "cafe\u0301s.txt", "new\nline", "gone (deleted)", "hard1", "..odd/x", "trailing.",
        "trailing ",
    ):  # fmt: skip
        (root / file).write_text(file.replace("\n", " "))
    Path(os.fsdecode(os.fsencode(root) + b"/bad\xff")).write_text("x")
    (outside / "secret.txt").write_text("x")
    (home / "repo-twin" / "x").write_text("x")
    os.link(root / "hard1", root / "hard2")
    os.link(outside / "secret.txt", root / "hard_out")
    os.mkfifo(root / "fifo")
    world = World(str(root), str(outside))
    for name, target in LINKS.items():
        os.symlink(world.text(Row("", target)), root / "links" / name)
    for at in range(60):
        os.symlink(f"many{at + 1}" if at < 59 else "../app/x.rb", root / "links" / f"many{at}")
    return world


def _traversal() -> Iterator[Row]:
    ups = {
        "plain": "../", "dot": "./../", "double": "..//", "dotted": ".././", "many": "..///.//",
        "by-folder": "app/../../", "by-deep": "deep/a/b/c/../../../../../",
        "by-link": "links/folder/../../", "by-root-link": "links/root/../",
        "by-here": "links/here/../../",
    }  # fmt: skip
    for name, up in ups.items():
        yield Row(f"traversal-{name}-file", f"{up}outside/secret.txt", refused=OUTSIDE)
        yield Row(f"traversal-{name}-new", f"{up}outside/new.txt", refused=OUTSIDE)
        yield Row(f"traversal-{name}-folder", f"{up}outside/", refused=OUTSIDE)
        yield Row(f"traversal-{name}-bare", up, refused=OUTSIDE)
        yield Row(f"traversal-{name}-twin", f"{up}repo-twin/x", refused=OUTSIDE)
        yield Row(f"traversal-{name}-twin-new", f"{up}repo-twin/new", refused=OUTSIDE)
        yield Row(f"traversal-{name}-sister", f"{up}repository", refused=OUTSIDE)
        yield Row(f"traversal-{name}-back", f"{up}repo/app/x.rb", key="app/x.rb")
        yield Row(f"traversal-{name}-back-new", f"{up}repo/app/n.rb", key="app/n.rb")
    for count in (2, 3, 5, 8, 13, 40, 200):
        yield Row(f"traversal-{count}-etc", "../" * count + "etc/passwd", refused=OUTSIDE)
        yield Row(f"traversal-{count}-root", "../" * count, refused=OUTSIDE)
        yield Row(f"traversal-in-{count}", "app/" + "../" * count + "etc/x", refused=OUTSIDE)
    for name, text in {
        "missing": "missing/../x", "missing-out": "missing/../../outside/secret.txt",
        "missing-deep": "missing/a/../../x", "file": "README.md/../x", "file-self": "README.md/..",
        "missing-end": "missing/..", "missing-slash": "missing/../",
        "file-deep": "app/x.rb/../../x", "link-to-missing": "links/dangling_folder/../x",
        "link-says-so": "links/dangling_up", "missing-back": "missing/../missing/../app/x.rb",
        "link-to-file": "links/file/../x",
    }.items():  # fmt: skip
        yield Row(f"traversal-{name}", text, refused=GOES_UP)
    # After decoding it would look like a way up; to the kernel it is a plain name.
    for name, text in {
        "percent": "%2e%2e/x", "percent-slash": "..%2fx", "percent-twice": "%252e%252e%252fx",
        "backslash": "..\\..\\x", "backslash-mixed": "app\\..\\..\\x", "four": "..../x",
        "three": ".../x", "semicolon": "..;/x", "blank-after": ".. /x", "blank-before": " ../x",
        "overlong": "..%c0%af..%c0%afx", "odd": "..odd/x", "entity": "&period;&period;/x",
        "comma": "..,/x", "html": "&#46;&#46;/x", "unicode-escape": "\\u002e\\u002e/x",
        "tilde-up": "~/../x",
    }.items():  # fmt: skip
        if name == "tilde-up":
            yield Row(f"traversal-not-{name}", text, refused=GOES_UP)
        else:
            yield Row(f"traversal-not-{name}", text, key=text)


def _absolute() -> Iterator[Row]:
    for text in (
        "/", "//", "///", "/.", "/..", "/../..", "/etc", "/etc/passwd", "//etc/passwd",
        "/etc/../etc", "/proc/self/environ", "/proc/self/cwd/../x", "/proc/self/root", "/dev/null",
        "/dev/stdin", "/dev/fd/0", "/tmp", "/tmp/", "/nowhere", "/nowhere/x", "/nowhere/",
        "<outside>", "<outside>/", "<outside>/secret.txt", "<outside>/new", "<root>/..",
        "<root>/../x", "<root>/../outside", "<root>-twin", "<root>-twin/x", "<root>.", "<root> ",
        "<root>x/y", "<root>/app/../../outside/secret.txt", "<root>/links/out_folder/secret.txt",
    ):  # fmt: skip
        yield Row(f"absolute-out-{text}", text, refused=OUTSIDE)
    for text, key in {
        "<root>": ".", "<root>/": ".", "<root>//": ".", "<root>/.": ".", "/<root>": ".",
        "<root>/app": "app", "<root>/app/": "app", "<root>/app/x.rb": "app/x.rb",
        "//<root>/app/x.rb": "app/x.rb", "<root>//app///x.rb": "app/x.rb",
        "<root>/new": "new", "<root>/new/": "new", "<root>/new/deep/x": "new/deep/x",
        "<root>/../repo/app/x.rb": "app/x.rb", "<outside>/../repo/app/x.rb": "app/x.rb",
        "<root>/port:1": "./port:1", "<root>/port:2": "./port:2", "<root>/links/file": "app/x.rb",
        "/proc/self/root/<root>/app/x.rb": "app/x.rb",
    }.items():  # fmt: skip
        yield Row(f"absolute-in-{text}", text, key=key)
    for text, why in {
        "<root>/.holdfast": OWN, "<root>/.holdfast/ledger.db": OWN, "<root>/README.md/": NO_FOLDER,
        "<root>/nested/inner.txt": NESTED, "<root>/missing/../x": GOES_UP, "<root>/a\nb": CHARACTER,
        "<root>/\x00": CHARACTER, "<root>/" + "x" * 256: LONG,
    }.items():  # fmt: skip
        yield Row(f"absolute-bad-{text[:24]!r}-{why}", text, refused=why)


def _characters() -> Iterator[Row]:
    codes = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
    for code in codes:
        yield Row(f"control-{code:04x}-inside", f"app/a{chr(code)}b", refused=CHARACTER)
    for code in (0x00, 0x09, 0x0A, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x2028):
        character = chr(code)
        yield Row(f"control-{code:04x}-first", f"{character}app/x.rb", refused=CHARACTER)
        yield Row(f"control-{code:04x}-last", f"app/x.rb{character}", refused=CHARACTER)
        yield Row(f"control-{code:04x}-folder", f"ap{character}p/x.rb", refused=CHARACTER)
        yield Row(f"control-{code:04x}-resource", f"res:a{character}b", refused=CHARACTER)
        yield Row(f"control-{code:04x}-up", f"..{character}/x", refused=CHARACTER)
        yield Row(f"control-{code:04x}-service", f"spec:a{character}b", refused=CHARACTER)
        yield Row(f"control-{code:04x}-alone", character, refused=CHARACTER)
    yield Row("control-forged-line", "app/x.rb\n2026-01-01 lock_forced", refused=CHARACTER)
    yield Row("control-escape-sequence", "app/\x1b[2Jx", refused=CHARACTER)
    yield Row("control-existing-file", "new\nline", refused=CHARACTER)
    yield Row("control-by-link", "links/line_break", refused=CHARACTER)
    yield Row("control-nul-then-suffix", "app/x.rb\x00.txt", refused=CHARACTER)
    yield Row("control-nul-then-way-out", "app/x.rb\x00/../../outside", refused=CHARACTER)
    surrogates = (0xD800, 0xD83D, 0xDBFF, 0xDC00, 0xDC80, 0xDCC0, 0xDCFF, 0xDDFF, 0xDFFF)
    for code in surrogates:
        character = chr(code)
        yield Row(f"surrogate-{code:04x}-alone", character, refused=CHARACTER)
        yield Row(f"surrogate-{code:04x}-inside", f"app/{character}.rb", refused=CHARACTER)
        yield Row(f"surrogate-{code:04x}-resource", f"db:{character}", refused=CHARACTER)
    yield Row("surrogate-split-pair", "\ud83d\ude00", refused=CHARACTER)
    for name, bytes_ in {
        "existing": b"bad\xff", "latin1": b"caf\xe9.txt", "overlong-slash": b"..\xc0\xafx",
        "overlong-dot": b"\xc0\xae\xc0\xae/x", "cut": b"caf\xc3",
        "encoded-surrogate": b"\xed\xa0\x80", "too-large": b"\xf5\x80\x80\x80",
        "utf16": b"\xff\xfea\x00b\x00",
    }.items():  # fmt: skip
        yield Row(f"bytes-{name}", os.fsdecode(bytes_), refused=CHARACTER)
    yield Row("bytes-by-link", "links/no_utf8", refused=CHARACTER)


def _lengths() -> Iterator[Row]:
    yield Row("long-255", "x" * 255, key="x" * 255)
    yield Row("long-255-folder", "x" * 255 + "/", key="x" * 255)
    yield Row("long-255-deeper", "x" * 255 + "/" + "y" * 255, key="x" * 255 + "/" + "y" * 255)
    yield Row("long-255-bytes", "\u00e9" * 127, key="\u00e9" * 127)
    yield Row("long-252-bytes", "\U0001f600" * 63, key="\U0001f600" * 63)
    for name, text in {
        "256": "x" * 256, "256-bytes": "\u00e9" * 128, "256-wide": "\U0001f600" * 64,
        "256-below-missing": "missing/" + "x" * 256, "256-below-folder": "app/" + "x" * 256,
        "256-folder": "x" * 256 + "/y", "10k": "x" * 10_000, "10k-path": "abcdefg/" * 1_250 + "x",
        "10k-slashes": "/".join(["a"] * 5_000), "10k-wide": "\u4e2d" * 10_000,
        "10k-absolute": "/" + "x" * 10_000, "10k-in": "<root>/" + "x" * 10_000,
        "1M": "x" * 1_000_000, "path-of-5000": "a/" * 2_500, "many-links": "links/here/" * 400,
        "10k-up-and-down": "app/../" * 1_500 + "app/x.rb",
    }.items():  # fmt: skip
        yield Row(f"long-{name}", text, refused=LONG)
    yield Row("long-10k-dots", "./" * 5_000 + "app/x.rb", refused=LONG)
    yield Row("long-10k-up", "../" * 3_400, refused=LONG)
    yield Row("long-10k-resource", "res:" + "x" * 10_000, refused=LONG)
    yield Row("long-201-resource", "res:" + "x" * 201, refused=NO_NAME)
    yield Row("long-200-resource", "res:" + "x" * 200, key="res:" + "x" * 200)
    for depth in (10, 100, 500, 1_000, 1_500):
        text = "d/" * depth + "x"
        yield Row(f"deep-{depth}", text, key=text)
        yield Row(f"deep-{depth}-folder", text + "/", key=text)
    yield Row("deep-dots", "./" * 1_000 + "app/x.rb", key="app/x.rb")
    yield Row("deep-slashes", "app" + "/" * 2_000 + "x.rb", key="app/x.rb")
    yield Row("deep-up-and-down", "app/../" * 300 + "app/x.rb", key="app/x.rb")
    yield Row("deep-links", "links/here/" + "here/" * 45 + "file", refused=LOOP)
    yield Row("deep-links-few", "links/here/here/here/file", key="app/x.rb")


def _unicode() -> Iterator[Row]:
    lookalikes = {
        "fullwidth-dots": "\uff0e\uff0e/x", "fullwidth-dot": "\uff0e/x",
        "two-dot-leader": "\u2025/x", "one-dot-leaders": "\u2024\u2024/x", "ellipsis": "\u2026/x",
        "small-full-stops": "\ufe52\ufe52/x", "ideographic-stops": "\u3002\u3002/x",
        "halfwidth-stops": "\uff61\uff61/x", "fullwidth-slash": "..\uff0foutside",
        "division-slash": "..\u2215outside", "fraction-slash": "..\u2044outside",
        "big-solidus": "..\u29f8outside", "fullwidth-backslash": "..\uff3coutside",
        "dots-zero-width": ".\u200b./x", "dots-joiner": "\u2060../x", "dots-bom": "\ufeff../x",
        "dots-combining": "..\u0301/x", "fullwidth-colon": "port\uff1a5432",
        "ratio-colon": "port\u2236x", "modifier-colon": "port\ua789x",
        "rtl-override": "app/\u202egpj.exe", "rtl-isolate": "app/\u2067x\u2069",
        "rtl-mark": "app/\u200fx", "lrm": "app/x.rb\u200e", "zero-width-space": "app/x\u200b.rb",
        "zero-width-joiner": "app/x\u200d.rb", "zero-width-nonjoiner": "app/x\u200c.rb",
        "soft-hyphen": "app/x\u00ad.rb", "bom": "\ufeffapp/x.rb", "word-joiner": "app/\u2060x.rb",
        "tag": "app/x\U000e0041.rb", "variation": "app/x\ufe0f.rb",
        "no-break-space": "app/\u00a0x.rb", "ideographic-space": "app/\u3000x.rb",
        "cyrillic-a": "\u0430pp/x.rb", "greek-o": "c\u03bfre", "dotless-i": "\u0131nit.py",
        "emoji": "\U0001f512/x", "emoji-joined": "\U0001f469\u200d\U0001f4bb",
        "long-s": "\u017frc/x", "fullwidth-name": "\uff41\uff50\uff50/x.rb",
        "ligature": "\ufb01le", "superscript": "x\u00b2", "noncharacter": "a\ufdd0b",
        "noncharacter-end": "a\uffffb", "private": "\ue000", "astral": "\U0010fffd",
        "ledger-zero-width": ".hold\u200bfast/x", "ledger-fullwidth": "\uff0eholdfast/x",
    }  # fmt: skip
    for name, text in lookalikes.items():
        yield Row(f"unicode-{name}", text, key=text)
    for name, (composed, other) in {
        "acute": ("caf\u00e9.txt", "cafe\u0301.txt"),
        "acute-on-disk-decomposed": ("caf\u00e9s.txt", "cafe\u0301s.txt"),
        "new": ("\u00fcber/x", "u\u0308ber/x"),
        "hangul": ("\uac00\ub098", "\u1100\u1161\u1102\u1161"),
        "angstrom": ("\u00c5", "\u212b"),
        "ohm": ("\u03a9", "\u2126"),
        "kelvin": ("worKtree:w", "wor\u212atree:w"),
        "two-marks": ("\u1e69", "s\u0307\u0323"),
        "marks-swapped": ("q\u0323\u0307", "q\u0307\u0323"),
        "vietnamese": ("Vi\u1ec7t", "Vie\u0323\u0302t"),
        "semicolon": ("a;b", "a\u037eb"),
        "grave": ("a`b", "a\u1fefb"),
        "ideograph": ("\u8c48", "\uf900"),
    }.items():
        yield Row(f"twin-{name}-composed", composed, key=composed)
        yield Row(f"twin-{name}-other", other, key=composed)
    yield Row("twin-resource-composed", "res:caf\u00e9", key="res:caf\u00e9")
    yield Row("twin-resource-decomposed", "res:cafe\u0301", key="res:caf\u00e9")
    yield Row("unicode-last", "\U0010ffff/x", refused=NO_CHARACTER)
    yield Row("unicode-last-inside", "app/\U0010ffff", refused=NO_CHARACTER)


def _names() -> Iterator[Row]:
    for text in (
        "App/x.rb", "APP/X.RB", "app/X.rb", "readme.md", ".HOLDFAST/ledger.db", ".Holdfast",
        "trailing.", "trailing ", "trailing", "trailing..", "x.", "x ", "x. .", " x", "x /y",
        "x./y", "README.md.", "README.md ", "a b/c d", "con", "NUL", "aux.txt", "COM1", "lpt1.txt",
        "x:stream", "x::$DATA", "app/x.rb::$DATA", "PROGRA~1", "~/x", "~root/x", "~", "$HOME/x",
        "${HOME}", "$(id)", "`id`", "*.py", "app/*", "**/x", "?", "[a]", "{a,b}", "-rf", "--help",
        "-C", "!x", "#x", "%s%n", "{0}", "{root}", "'; drop table grants; --", '" or 1=1', "a'b",
        'a"b', "a|b", "a&b", "a>b", "<a", "C:\\x", "C:/x", "c:x", "C:", "\\\\server\\share\\x",
        "\\x", "\\", "app\\x.rb", "\\\\?\\C:\\x", "git@github.com:a/b", "mailto:a@b",
        "javascript:alert(1)", "data:text/plain,x", "None", "null", "0", "...", "..x", "x..", ".x",
        ".git/config", ".gitignore", "fifo", "hard1", "hard2", "hard_out", "gone (deleted)",
        "new (deleted)", "(unreachable)/x", "pipe:[1]", "socket:[1]", "holdfast", ".holdfast2",
        ".holdfast.bak/x", "x.holdfast/y", "a.holdfast", ".holdfas", "holdfast/.x",
    ):  # fmt: skip
        yield Row(f"name-{text}", text, key=text)
    for text, key in {
        "file:///etc/passwd": "file:/etc/passwd", "http://x/y": "http:/x/y", "x//y": "x/y",
        "https://a.b/../c": "", "s3://b/k": "s3:/b/k", "sqlite:///x.db": "sqlite:/x.db",
    }.items():  # fmt: skip
        yield Row(f"url-{text}", text, key=key, refused="" if key else GOES_UP)
    yield Row("empty", "", refused=EMPTY)
    for name, text in {
        "one": " ", "three": "   ", "no-break": "\u00a0", "ideographic": "\u3000", "thin": "\u2009",
    }.items():  # fmt: skip
        yield Row(f"blank-{name}", text, refused=BLANK)
        yield Row(f"blank-{name}-meant", f"./{text}", key=text)
    for text in (
        "README.md/", "README.md/.", "README.md//", "app/x.rb/", "links/file/", "links/chain/",
        "fifo/", "hard1/", "port:1/", "./port:1/", "fifo/.",
    ):  # fmt: skip
        resource = text == "port:1/"
        yield Row(f"slash-{text}", text, refused=NO_PORT if resource else NO_FOLDER)
    # A folder that was replaced by a file: its former contents keep their keys.
    for text in ("README.md/x", "README.md/x/y", "app/x.rb/z", "fifo/x"):
        yield Row(f"below-a-file-{text}", text, key=text)
    yield Row("below-a-file-folder", "README.md/x/", key="README.md/x")
    yield Row("below-a-file-by-link", "links/file/x", key="app/x.rb/x")


def _links() -> Iterator[Row]:
    for name in LINKS:
        if name.startswith("out_"):
            yield Row(f"link-{name}", f"links/{name}", refused=OUTSIDE)
            yield Row(f"link-{name}-below", f"links/{name}/below", refused=OUTSIDE)
            yield Row(f"link-{name}-dotted", f"./app/../links/./{name}", refused=OUTSIDE)
            yield Row(f"link-{name}-absolute", f"<root>/links/{name}", refused=OUTSIDE)
    for text in (
        "links/out_folder/", "links/out_folder/secret.txt", "links/out_folder/new/deep",
        "links/out_top/etc", "links/out_folder/../outside", "links/folder/../links/out_file",
        "links/out_parent/outside", "links/out_parent/repo/../outside", "links/out_etc/passwd",
        "links/out_dangling/", "links/root/..", "links/out_folder/..", "links/here/out_file",
        "links/root/links/out_file", "links/folder/../..",
    ):  # fmt: skip
        yield Row(f"link-out-{text}", text, refused=OUTSIDE)
    for text in (
        "links/self", "links/self/", "links/self/x", "links/loop_a", "links/loop_b",
        "links/loop_a/x", "links/loop_below", "links/loop_below/y", "links/loop_three",
        "links/folder/../links/self", "<root>/links/loop_a", "links/self/../x", "links/many0",
        "links/many0/x",
    ):  # fmt: skip
        yield Row(f"link-loop-{text}", text, refused=LOOP)
    for text, why in {
        "links/ledger": OWN, "links/ledger/": OWN, "links/ledger/ledger.db": OWN,
        "links/ledger/new": OWN, "links/ledger_file": OWN, "links/ledger_new": OWN,
        "links/nested": NESTED, "links/nested/x": NESTED, "links/nested_file": NESTED,
        "links/nested/below/y": NESTED, "links/nested/.holdfast": OWN,
    }.items():  # fmt: skip
        yield Row(f"link-bad-{text}", text, refused=why)


def _same() -> Iterator[Row]:
    one_file = (
        "app/x.rb", "./app/x.rb", "././app/x.rb", "app//x.rb", "app///x.rb", "app/./x.rb",
        "app/././x.rb", "app/../app/x.rb", "app/models/../x.rb", "deep/a/../../app/x.rb",
        "links/file", "links/chain", "links/chain2", "links/chain3", "links/absolute",
        "links/folder/x.rb", "links/absolute_folder/x.rb", "links/roundabout", "links/here/file",
        "links/root/app/x.rb", "links/here/../app/x.rb", "links/folder/models/../x.rb",
        "links/many30", "links/out_parent/repo/app/x.rb", "links/out_folder/../repo/app/x.rb",
        "links/port:7", "links/./here/./here/file", ".//app/x.rb",
        "links/root/links/root/app/x.rb", "links/../app/x.rb", "app/models/.././x.rb",
    )  # fmt: skip
    for text in one_file:
        yield Row(f"same-file-{text}", text, key="app/x.rb")
    for text in (
        "app", "app/", "app//", "app/.", "app/./", "app/models/..", "./app", "links/folder",
        "links/folder/", "links/absolute_folder", "links/root/app", "links/folder/models/../",
        "deep/../app",
    ):  # fmt: skip
        yield Row(f"same-folder-{text}", text, key="app")
    for text in (
        "app/new.rb", "./app/new.rb", "app//new.rb", "app/../app/new.rb", "links/folder/new.rb",
        "links/dangling", "links/dangling_absolute", "links/dangling_chain",
        "links/root/app/new.rb", "app/new.rb/", "app/new.rb/.",
    ):  # fmt: skip
        yield Row(f"same-new-{text}", text, key="app/new.rb")
    for text in (
        "later/x", "later//x", "later/./x", "links/dangling_folder/x",
        "links/here/dangling_folder/x", "links/dangling_folder/./x", "links/root/later/x",
    ):  # fmt: skip
        yield Row(f"same-later-{text}", text, key="later/x")
    for text in (
        ".", "./", "./.", ".//", "app/..", "app/../", "links/root", "links/root/", "links/..",
    ):  # fmt: skip
        yield Row(f"same-root-{text}", text, key=".")


def _resources() -> Iterator[Row]:
    for text in (
        "port:5432", "port:1", "port:65535", "db:test", "git:index", "git:refs/heads/main",
        "res:anything", "res:a/../b", "res:../../etc/passwd", "res:/etc/passwd", "res:.", "res:..",
        "res:a b", "res:a:b", "res:port:1", "git:../x", "db:.holdfast/ledger.db", "res:*", "res:-",
        "db:~", "res:a/", "res:\\x", "res:..\\x", "db:\u202ex",
    ):  # fmt: skip
        yield Row(f"resource-{text}", text, key=text)
    for text in (
        "port:0", "port:00", "port:05432", "port:65536", "port:99999", "port:-1", "port:+1",
        "port:1.0", "port:0x10", "port:1e3", "port:1_0", "port:\u0663", "port:\uff11",
        "port:\u00b2", "port:x", "port:1/..", "port:5432/tcp", "port:1,2",
        "port:999999999999999999999",
    ):  # fmt: skip
        yield Row(f"resource-bad-{text}", text, refused=NO_PORT)
    for text in (
        "port:", "db:", "git:", "res:", "res: ", "res: a", "res:a ", "db:\u3000", "port: 1",
    ):  # fmt: skip
        yield Row(f"resource-no-name-{text}", text, refused=NO_NAME)
    for kind in ("spec", "node", "worktree"):
        for name in ("x", "", "1", "a/../b", "../x", "x/"):
            yield Row(f"resource-service-{kind}:{name}", f"{kind}:{name}", refused=NOT_GENERIC)
    for kind in INTERNAL_KINDS:
        for name in ("1-2", "", "x", "65024-1", "../x"):
            yield Row(f"resource-{kind}:{name}", f"{kind}:{name}", refused=BY_HAND)
        yield Row(f"resource-not-./{kind}:x", f"./{kind}:x", key=f"./{kind}:x")
    # A path, although it looks like a resource.
    for text, key in {
        "./port:1": "./port:1", "./port:2": "./port:2", ".//port:2": "./port:2",
        "./spec:x": "./spec:x", "./node:1": "./node:1", "./worktree:w": "./worktree:w",
        "./inode:1-2": "./inode:1-2",
        "./res:box": "./res:box", "./res:box/": "./res:box", "./res:box/in": "./res:box/in",
        "app/../port:1": "./port:1", "app/../res:box/in": "./res:box/in",
        "app/port:1": "app/port:1", "PORT:1": "PORT:1", "Port:1": "Port:1", "Spec:x": "Spec:x",
        "ports:1": "ports:1", "path:x": "path:x", ":x": ":x", ":": ":", "x:": "x:", "port": "port",
        "por t:1": "por t:1", " port:1": " port:1", "port :1": "port :1", "app:x": "app:x",
        "./port:": "./port:", "./links/port:7": "app/x.rb",
    }.items():  # fmt: skip
        yield Row(f"resource-not-{text}", text, key=key)


def _ledgers() -> Iterator[Row]:
    for text in (
        ".holdfast", ".holdfast/", ".holdfast/ledger.db", ".holdfast/ledger.db-wal",
        ".holdfast/new/x", "./.holdfast/ledger.db", ".//.holdfast//ledger.db",
        "app/../.holdfast/ledger.db", ".holdfast/.", ".holdfast/../.holdfast", "app/.holdfast",
        "app/.holdfast/ledger.db", "new/.holdfast/x", ".holdfast/.holdfast", "nested/.holdfast",
        "nested/.holdfast/ledger.db", "links/here/../.holdfast", "README.md/.holdfast",
        ".holdfast/ledger.db/x",
    ):  # fmt: skip
        yield Row(f"ledger-{text}", text, refused=OWN)
    for text in (
        "nested", "nested/", "nested/inner.txt", "nested/new", "nested/new/deep", "nested/below",
        "nested/below/y", "nested/below/new", "./nested/inner.txt", "app/../nested/inner.txt",
        "nested/below/..", "nested/inner.txt/x",
    ):  # fmt: skip
        yield Row(f"nested-{text}", text, refused=NESTED)
    yield Row("ledger-left-again", ".holdfast/../app/x.rb", key="app/x.rb")
    yield Row("nested-left-again", "nested/../app/x.rb", key="app/x.rb")


def _table() -> list[Row]:
    families = (
        _traversal, _absolute, _characters, _lengths, _unicode, _names, _links, _same, _resources,
        _ledgers,
    )  # fmt: skip
    return [row for family in families for row in family()]


TABLE = _table()
