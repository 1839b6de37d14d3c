"""Ways in which Python writes files, from those of the library to those of careful programs."""

from __future__ import annotations

from lease_world import Rows

ROWS = Rows()
_py = ROWS.python

# open and its modes

for _mode in ("w", "a", "r+", "w+", "a+"):
    _name = _mode.replace("+", "-plus")
    _py(f"open-{_name}", f"with open('a.txt', '{_mode}') as f: f.write('new')", "a.txt")
_py("open-x", "open('made', 'x').write('new'); open('made', 'x')", beside="a.txt")  # fmt: skip
_py("open-unbuffered", "f = open('a.txt', 'r+b', buffering=0); f.seek(3); f.write(b'N')", "a.txt")
_py("open-bytes-name", "open(b'a.txt', 'wb').write(b'new')", "a.txt")
_py("open-absolute", "import os; open(os.path.abspath('a.txt'), 'w').write('new')", "a.txt")
_py("open-dots", "open('d/../d/./../a.txt', 'w').write('new')", "a.txt")
_py("open-link", "open('link', 'a').write('new')", "a.txt")
_py("open-odd-names", """
import os
for name in ('two words', 'line\\nbreak', 'tab\\t', '-dash', '*', 'ünï', 'x' * 255, '\\\\'):
    with open(name, 'w') as f:
        f.write(name)
with open(b'not-utf-\\xff', 'wb') as f:
    f.write(b'bytes')
print(len(os.listdir('.')))
""", beside="a.txt", unleased=("not-utf-*", "line*", "tab*"))  # fmt: skip
_py("open-long-path", """
import os
deep = '/'.join(['y' * 200] * 18)
os.makedirs(deep)
with open(deep + '/' + 'z' * 200, 'w') as f:
    f.write('deep')
try:
    open(deep + '/' + '/'.join(['w' * 200] * 3), 'w')
except OSError as e:
    print(e.errno)
""")  # fmt: skip

# The library's helpers

_py("pathlib", """
from pathlib import Path
Path('a.txt').write_text('new'); Path('made').mkdir(); Path('made/x').write_bytes(b'x')
Path('made/x').rename('made/y'); Path('made/y').chmod(0o600); Path('b.txt').unlink()
Path('made/link').symlink_to('y'); Path('made/hard').hardlink_to('made/y')
""", "a.txt")  # fmt: skip
_py("pathlib-replace", "from pathlib import Path; Path('b.txt').replace('a.txt')", "a.txt")
_py("shutil-copy", "import shutil; shutil.copy('run.sh', 'a.txt')", "a.txt")
_py("shutil-copy2", "import shutil; shutil.copy2('b.txt', 'a.txt')", "a.txt")
_py("shutil-copytree", "import shutil; shutil.copytree('d', 'e', dirs_exist_ok=True)", "e/one.txt",
    before="mkdir e; echo older >e/one.txt")  # fmt: skip
_py("shutil-move", "import shutil; shutil.move('b.txt', 'a.txt')", "a.txt")
_py("shutil-rmtree", "import shutil; shutil.rmtree('d')", "d/sub/three.txt")
_py("shutil-archive", "import shutil; shutil.unpack_archive('x.zip', '.')", "a.txt",
    before="zip -qX x.zip a.txt; echo older >a.txt", needs=("zip",))  # fmt: skip
_py("tempfile-replace", """
import os, tempfile
fd, name = tempfile.mkstemp(dir='.', prefix='.a.txt.', suffix='.tmp')
try:
    with os.fdopen(fd, 'w') as f:
        f.write('new'); f.flush(); os.fsync(fd)
    os.chmod(name, 0o644)
    os.replace(name, 'a.txt')
except OSError:
    os.unlink(name)
    raise
d = os.open('.', os.O_RDONLY | os.O_DIRECTORY); os.fsync(d)
""", "a.txt")  # fmt: skip
_py("tempfile-named", """
import os, tempfile
with tempfile.NamedTemporaryFile('w', dir='.', delete=False) as f:
    f.write('new')
try:
    os.rename(f.name, 'a.txt')
except OSError:
    os.remove(f.name)
    raise
""", "a.txt")  # fmt: skip
_py("tempfile-unnamed", """
import tempfile
with tempfile.TemporaryFile(dir='.') as f:
    f.write(b'new'); f.seek(0); print(f.read())
with tempfile.TemporaryDirectory(dir='.') as d:
    open(d + '/x', 'w').write('x')
""", beside="a.txt")  # fmt: skip
_py("fileinput", """
import fileinput
with fileinput.input('a.txt', inplace=True) as lines:
    for line in lines:
        print(line.upper(), end='')
""", "a.txt", temporary=("a.txt.bak",))  # fmt: skip
_py("json-and-pickle", """
import json, pickle, shelve
json.dump({'a': 1}, open('a.txt', 'w')); pickle.dump([1], open('made', 'wb'))
""", "a.txt")  # fmt: skip
_py("dbm", """
import dbm.dumb
with dbm.dumb.open('made', 'c') as d:
    d['a'] = 'b'
""")  # fmt: skip
_py("logging", """
import logging, logging.handlers
h = logging.handlers.RotatingFileHandler('a.txt', maxBytes=20, backupCount=2)
log = logging.getLogger('x'); log.addHandler(h)
for i in range(6):
    log.warning('line %d', i)
""", "a.txt")  # fmt: skip
_py("zipfile", "from zipfile import *; ZipFile('x.zip', 'w').writestr(ZipInfo('q'), 'new')",
    "x.zip", before="echo older >x.zip")  # fmt: skip
_py("tarfile", "import tarfile; tarfile.open('x.tar').extractall('.')", "a.txt",
    before="tar cf x.tar a.txt; echo older >a.txt")  # fmt: skip

# os

_py("os-rename", "import os; os.rename('b.txt', 'a.txt')", "a.txt")
_py("os-rename-away", "import os; os.rename('a.txt', 'made')", "a.txt")
_py("os-link", "import os; os.link('b.txt', 'made'); os.link('b.txt', 'made')", beside="a.txt")
_py("os-link-write", "import os; os.link('a.txt', 'made'); open('made', 'w').write('x')", "a.txt")
_py("os-link-replace", "import os; os.link('b.txt', 'made'); os.replace('made', 'a.txt')\n"
    "os.path.exists('made') and os.remove('made')", "a.txt", temporary=("made",))  # fmt: skip
_py("os-truncate", "import os; os.truncate('a.txt', 2)", "a.txt")
_py("os-ftruncate", "import os; os.ftruncate(os.open('a.txt', os.O_RDWR), 2)", "a.txt")
_py("os-open-truncating", "import os; os.open('a.txt', os.O_RDONLY | os.O_TRUNC)", "a.txt")
_py("os-open-synchronous", "import os; f = os.open('a.txt', os.O_WRONLY | os.O_SYNC | os.O_DSYNC)\n"
    "os.pwrite(f, b'NEW', 4)", "a.txt")  # fmt: skip
_py("os-symlink", "import os; os.symlink('none', 'made'); os.symlink('none', 'a.txt')",
    beside="a.txt")  # fmt: skip
_py("os-mkfifo", "import os; os.mkfifo('made', 0o640); print(oct(os.stat('made').st_mode))")
_py("os-mknod", "import os; os.mknod('made', 0o100640); print(os.stat('made').st_size)")
_py("os-chmod", "import os; os.chmod('a.txt', 0o4711)", "a.txt")
_py("os-fchmod", "import os; os.fchmod(os.open('a.txt', os.O_RDONLY), 0o600)", "a.txt")
_py("os-utime", "import os; os.utime('a.txt', (1, 2)); os.utime('link', (3, 4))", "a.txt")
_py("os-utime-open", "import os; os.utime(os.open('a.txt', os.O_RDONLY), (1, 2))", "a.txt")
_py("os-xattr", """
import os
try:
    os.setxattr('a.txt', 'user.corpus', b'new')
    print(os.getxattr('a.txt', 'user.corpus')); os.removexattr('a.txt', 'user.corpus')
except OSError as e:
    print(e.errno)
""")  # fmt: skip
_py("os-makedirs", "import os; os.makedirs('x/y/z', exist_ok=True); os.removedirs('x/y/z')")
_py("os-renames", "import os; os.renames('a.txt', 'x/y/a.txt'); os.renames('x/y/a.txt', 'made')",
    "a.txt", temporary=("x", "x/y"))  # fmt: skip
_py("umask", """
import os
for mask, name in ((0o077, 'p'), (0o002, 'g'), (0, 'o'), (0o777, 'n')):
    os.umask(mask)
    open(name, 'w').close(); os.mkdir(name + '-folder'); os.mkfifo(name + '-pipe')
    os.close(os.open(name + '-mode', os.O_CREAT | os.O_WRONLY, 0o751))
""")  # fmt: skip
_py("group-of-the-folder", """
import os
os.mkdir('g'); os.chmod('g', 0o2775); os.mkdir('g/in'); open('g/file', 'w').close()
print(oct(os.stat('g/in').st_mode))
""")  # fmt: skip

# Many at once

_py("threads", """
import threading
def write(n):
    for i in range(20):
        with open(f'made-{n}', 'a') as f:
            f.write(f'{i}\\n')
    open('a.txt', 'a').write('x')
all = [threading.Thread(target=write, args=(n,)) for n in range(8)]
[t.start() for t in all]; [t.join() for t in all]
""", "a.txt", quiet=True)  # fmt: skip
_py("processes", """
import multiprocessing
def write(n):
    for i in range(20):
        with open(f'made-{n}-{i}', 'x') as f:
            f.write(str(i))
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(4) as pool:
        pool.map(write, range(4))
""")  # fmt: skip
_py("forked", """
import os
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid(); open('a.txt', 'w').write('grandchild'); os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
""", "a.txt")  # fmt: skip
_py("spawned", "import os; os.waitpid(os.posix_spawn('/bin/cp', ['cp', 'b.txt', 'a.txt'], {}), 0)",
    "a.txt", quiet=True)  # fmt: skip
_py("asynchronous", """
import asyncio, pathlib
async def main():
    await asyncio.gather(*(asyncio.to_thread(pathlib.Path(f'made-{i}').write_text, str(i))
                           for i in range(20)))
    process = await asyncio.create_subprocess_shell('echo new >a.txt')
    return await process.wait()
raise SystemExit(asyncio.run(main()))
""", "a.txt")  # fmt: skip

# sqlite3

_TABLE = "import sqlite3; c = sqlite3.connect('x.db'); c.executescript('create table t (a)')\n"
_py("sqlite-made", _TABLE + "c.execute('insert into t values (1)'); c.commit(); c.close()")
_PREPARED = "sqlite3 x.db 'create table t (a)'"
_INSERT = "c.execute('insert into t values (2)'); c.commit(); c.close()"
_py("sqlite", "import sqlite3; c = sqlite3.connect('x.db'); " + _INSERT, "x.db", before=_PREPARED,
    needs=("sqlite3",))  # fmt: skip
_py("sqlite-wal", "import sqlite3; c = sqlite3.connect('x.db')\n"
    "print(c.execute('pragma journal_mode = wal').fetchall()); " + _INSERT, "x.db",
    before=_PREPARED, needs=("sqlite3",))  # fmt: skip
_py("sqlite-two", """
import sqlite3
one, two = (sqlite3.connect('x.db', timeout=0, isolation_level=None) for _ in range(2))
one.execute('begin immediate'); one.execute('insert into t values (1)')
try:
    two.execute('begin immediate')
except sqlite3.OperationalError as e:
    print(e)
one.execute('commit'); print(two.execute('select * from t').fetchall())
""", "x.db", before=_PREPARED, needs=("sqlite3",))  # fmt: skip
