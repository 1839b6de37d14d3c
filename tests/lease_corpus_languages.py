"""Node, Ruby, PHP and Perl, and databases on the command line."""

from __future__ import annotations

from typing import Unpack

from lease_world import More, Rows

ROWS = Rows()


def _node(name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
    text = "const fs = require('fs'), path = require('path');\n" + script
    ROWS.add(f"node-{name}", ("node", "-e", text), victim, more)


def _ruby(name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
    ROWS.add(f"ruby-{name}", ("ruby", "--disable-gems", "-e", script), victim, more)


def _php(name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
    ROWS.add(f"php-{name}", ("php", "-n", "-r", script), victim, more)


def _perl(name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
    ROWS.add(f"perl-{name}", ("perl", "-we", script), victim, more)


# Node: blocking calls, callbacks, promises

_node("write", "fs.writeFileSync('a.txt', 'new')", "a.txt")
_node("append", "fs.appendFileSync('a.txt', 'new')", "a.txt")
_node("call-back", "fs.writeFile('a.txt', 'new', e => { if (e) throw e; })", "a.txt")
_node("call-back-append", "fs.appendFile('a.txt', 'new', e => { if (e) throw e; })", "a.txt")
_node(
    "promises",
    "(async () => { await fs.promises.mkdir('made/deep', { recursive: true });"
    "await Promise.all([...Array(30).keys()].map(i => fs.promises.writeFile(`made/${i}`, `${i}`)));"
    "await fs.promises.writeFile('a.txt', 'new', { mode: 0o600 }); })()",
    "a.txt",
)
_node(
    "stream",
    "const out = fs.createWriteStream('a.txt', { flags: 'r+' });"
    "for (let i = 0; i < 99; i++) out.write(`${i}\\n`); out.end();",
    "a.txt",
)
_node(
    "pipeline",
    "require('stream').pipeline(fs.createReadStream('b.txt'), require('zlib').createGzip(),"
    "fs.createWriteStream('a.txt'), e => { if (e) throw e; })",
    "a.txt",
)
_node("rename", "fs.renameSync('b.txt', 'a.txt')", "a.txt")
_node(
    "write-and-rename",
    "fs.writeFileSync('a.txt.1234', 'new'); try { fs.renameSync('a.txt.1234', 'a.txt') }"
    "catch (e) { fs.unlinkSync('a.txt.1234'); throw e }",
    "a.txt",
)
_node("copy", "fs.copyFileSync('b.txt', 'a.txt')", "a.txt")
_node("copy-exclusive", "fs.copyFileSync('b.txt', 'made', fs.constants.COPYFILE_EXCL)")
_node("cp", "fs.cpSync('d', 'e', { recursive: true })", "e/one.txt",
      before="mkdir e; echo older >e/one.txt", differs=("err",))  # fmt: skip
_node("rm", "fs.rmSync('d', { recursive: true, force: true })", "d/one.txt")
_node("unlink", "fs.unlinkSync('a.txt')", "a.txt")
_node("truncate", "fs.truncateSync('a.txt', 2)", "a.txt")
_node("links", "fs.symlinkSync('a.txt', 'made'); fs.linkSync('b.txt', 'hard')", beside="a.txt")
_node("modes", "fs.chmodSync('a.txt', 0o640); fs.utimesSync('b.txt', 1, 2)", "a.txt")
_node(
    "open", "const f = fs.openSync('a.txt', 'a+'); fs.writeSync(f, 'new'); fs.fsyncSync(f)", "a.txt"
)
_node("mkdtemp", "const d = fs.mkdtempSync('x-'); fs.writeFileSync(d + '/x', 'x');"
      "fs.rmSync(d, { recursive: true })")  # fmt: skip
_node(
    "workers",
    "const { Worker } = require('worker_threads');"
    "for (let i = 0; i < 4; i++) new Worker(`require('fs').writeFileSync('made-${i}', 'x')`,"
    "{ eval: true });",
)
_node("child", "process.exit(require('child_process').spawnSync('cp', ['b.txt', 'a.txt']).status)",
      "a.txt")  # fmt: skip
_node("error", "for (const p of ['none/x', 'd', 'a.txt/x']) try { fs.writeFileSync(p, 'x') }"
      "catch (e) { console.log(e.code, e.syscall) }")  # fmt: skip

# Ruby

_ruby("write", "File.write('a.txt', 'new')", "a.txt")
_ruby("append", "File.open('a.txt', 'a') { |f| f.puts 'new' }", "a.txt")
_ruby("in-place", "ARGV.replace(['a.txt']); $-i = ''; while gets; print $_.upcase; end", "a.txt",
      quiet=True)  # fmt: skip
_ruby(
    "fileutils",
    "require 'fileutils'; FileUtils.mkdir_p('x/y'); FileUtils.cp('a.txt', 'x/y');"
    "FileUtils.mv('x/y/a.txt', 'x/z'); FileUtils.rm_rf('d/sub');"
    "FileUtils.install('b.txt', 'a.txt')",
    "a.txt",
)
_ruby("rename", "File.rename('b.txt', 'a.txt')", "a.txt")
_ruby("delete", "File.delete('a.txt')", "a.txt")
_ruby(
    "locked", "File.open('a.txt', File::RDWR) { |f| f.flock(File::LOCK_EX); f.write('n') }", "a.txt"
)

# PHP

_php("write", "exit(file_put_contents('a.txt', 'new') === false ? 1 : 0);", "a.txt")
_php("append", "exit(file_put_contents('a.txt', 'new', FILE_APPEND | LOCK_EX) === false ? 1 : 0);",
     "a.txt")  # fmt: skip
_php("rename", "exit(rename('b.txt', 'a.txt') ? 0 : 1);", "a.txt")
_php("tempnam", "$t = tempnam('.', 'x'); file_put_contents($t, 'new');"
     "if (!rename($t, 'a.txt')) { unlink($t); exit(1); }", "a.txt")  # fmt: skip
_php("unlink", "exit(unlink('a.txt') ? 0 : 1);", "a.txt")

# Perl

_perl("write", "open(my $f, '>', 'a.txt') or die $!; print $f 'new'; close $f", "a.txt")
_perl(
    "sysopen", "use Fcntl; sysopen(my $f, 'a.txt', O_RDWR) or die $!; syswrite $f, 'new'", "a.txt"
)
_perl("rename", "rename 'b.txt', 'a.txt' or die $!", "a.txt")
_perl("unlink", "unlink('a.txt') or die $!", "a.txt")
_perl("copy", "use File::Copy; copy('b.txt', 'a.txt') or die $!; "
      "move('d/one.txt', 'made') or die $!", "a.txt")  # fmt: skip
_perl("temporary", "use File::Temp; my $t = File::Temp->new(DIR => '.'); print $t 'new'; close $t;"
      "rename $t->filename, 'a.txt' or die $!; $t->unlink_on_destroy(0)", "a.txt")  # fmt: skip

# sqlite3 on the command line

_TABLE = "sqlite3 x.db 'create table t (a); insert into t values (1)'"
for _mode in ("delete", "truncate", "persist", "wal", "memory", "off"):
    ROWS.sh(f"sqlite-cli-{_mode}",
            f"sqlite3 x.db 'pragma journal_mode = {_mode}; insert into t values (2)'", "x.db",
            before=_TABLE, needs=("sqlite3",),
            differs=("x.db-journal", "x.db-wal"))  # fmt: skip
ROWS.sh("sqlite-cli-made", "sqlite3 made.db 'create table t (a)'; sqlite3 made.db .dump",
        needs=("sqlite3",), beside="a.txt")  # fmt: skip
ROWS.sh("sqlite-cli-vacuum", "sqlite3 x.db 'delete from t; vacuum'", "x.db", before=_TABLE,
        needs=("sqlite3",))  # fmt: skip
ROWS.sh("sqlite-cli-read", "sqlite3 x.db 'select * from t'", before=_TABLE, beside="x.db",
        needs=("sqlite3",))  # fmt: skip
