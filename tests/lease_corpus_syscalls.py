"""System calls that few programs make directly, the flags of common ones, and errors.

The tests compare what a program can see of a call: the number of the descriptor that it gets, its
flags, the name behind it, and the error, if there is one.
"""

from __future__ import annotations

from typing import Unpack

from lease_world import More, Rows

ROWS = Rows()

#: Shared by the scripts below: calls by their numbers on x86_64.
PRELUDE = """
import ctypes, errno, fcntl, mmap, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
AT = -100
def call(number, *words):
    ctypes.set_errno(0)
    words = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]
    done = libc.syscall(ctypes.c_long(number), *words)
    return done if done >= 0 else -ctypes.get_errno()
def must(number, *words):
    done = call(number, *words)
    if done < 0:
        raise OSError(-done, os.strerror(-done))
    return done
def told(done):
    return errno.errorcode.get(-done, done) if done < 0 else 'done'
def tried(what, *words, **more):
    try:
        done = what(*words, **more)
    except OSError as e:
        return errno.errorcode[e.errno]
    if isinstance(done, int):
        os.close(done)
    return 'done'
OPEN, CREAT, TRUNCATE, RENAME, MKDIR, RMDIR = 2, 85, 76, 82, 83, 84
LINK, UNLINK, SYMLINK, CHMOD, CHOWN, UTIME, UTIMES, MKNOD = 86, 87, 88, 90, 92, 132, 235, 133
OPENAT, RENAMEAT, LINKAT, RENAMEAT2, OPENAT2 = 257, 264, 265, 316, 437
"""


def _py(name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
    ROWS.python(name, PRELUDE + script, victim, **more)


# The old calls, which the C library no longer makes

_py("old-open", "os.write(must(OPEN, b'a.txt', os.O_WRONLY | os.O_TRUNC, 0), b'new')", "a.txt")
_py("old-creat", "os.write(must(CREAT, b'a.txt', 0o600), b'new')", "a.txt")
_py("old-creat-made", "os.umask(0o027); print(must(CREAT, b'made', 0o777))")
_py("old-truncate", "must(TRUNCATE, b'a.txt', 1)", "a.txt")
_py("old-rename", "must(RENAME, b'b.txt', b'a.txt')", "a.txt")
_py("old-renameat", "must(RENAMEAT, AT, b'b.txt', AT, b'a.txt')", "a.txt")
_py("old-unlink", "must(UNLINK, b'a.txt')", "a.txt")
_py("old-link", "must(LINK, b'b.txt', b'made')")
_py("old-symlink", "must(SYMLINK, b'b.txt', b'made')")
_py("old-folders", "must(MKDIR, b'made', 0o750); must(MKDIR, b'made/in', 0o777)\n"
    "must(RMDIR, b'made/in')")  # fmt: skip
_py("old-chmod", "must(CHMOD, b'a.txt', 0o601)", "a.txt")
_py("old-utime", "must(UTIME, b'a.txt', struct.pack('qq', 1, 2))", "a.txt")
_py("old-utimes", "must(UTIMES, b'a.txt', struct.pack('qqqq', 1, 0, 2, 0))", "a.txt")
_py("old-mknod", "must(MKNOD, b'made', 0o100644, 0); must(MKNOD, b'pipe', 0o010644, 0)")

# Exchanging names

_py("rename-exchange", "must(RENAMEAT2, AT, b'b.txt', AT, b'a.txt', 2)", "a.txt")
_py("rename-exchange-back", "must(RENAMEAT2, AT, b'a.txt', AT, b'b.txt', 2)", "a.txt")
_py("rename-exchange-folder", "must(RENAMEAT2, AT, b'b.txt', AT, b'd', 2)", "d/one.txt")
_py("rename-no-replace", "print(told(call(RENAMEAT2, AT, b'b.txt', AT, b'a.txt', 1)))\n"
    "must(RENAMEAT2, AT, b'b.txt', AT, b'made', 1)", beside="a.txt")  # fmt: skip
_py("rename-odd-flags", "print(told(call(RENAMEAT2, AT, b'b.txt', AT, b'a.txt', 3)))\n"
    "print(told(call(RENAMEAT2, AT, b'b.txt', AT, b'none', 2)))\n"
    "print(told(call(RENAMEAT2, AT, b'b.txt', AT, b'made', 64)))")  # fmt: skip
_py("rename-same", "os.rename('a.txt', 'a.txt'); os.link('b.txt', 'made')\n"
    "os.rename('b.txt', 'made'); print(sorted(os.listdir()))")  # fmt: skip

# Files without a name, and names behind descriptors

_py("unnamed-linked", """
f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640); os.write(f, b'new')
must(LINKAT, AT, b'/proc/self/fd/%d' % f, AT, b'made', 0x400)
""")  # fmt: skip
_py("unnamed-empty-path", """
f = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600); os.write(f, b'new')
print(told(call(LINKAT, f, b'', AT, b'made', 0x1000)))
""")  # fmt: skip
_py("unnamed-replacing", """
f = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o644); os.write(f, b'new')
must(LINKAT, AT, b'/proc/self/fd/%d' % f, AT, b'made', 0x400)
try:
    os.replace('made', 'a.txt')
except OSError:
    os.unlink('made'); raise
""", "a.txt")  # fmt: skip
_py("reopened", "f = os.open('a.txt', os.O_RDONLY)\n"
    "os.write(os.open(f'/proc/self/fd/{f}', os.O_WRONLY | os.O_TRUNC), b'new')",
    "a.txt")  # fmt: skip
_py("reopened-by-pid", "f = os.open('a.txt', os.O_RDONLY)\n"
    "os.write(os.open(f'/proc/{os.getpid()}/fd/{f}', os.O_WRONLY), b'new')", "a.txt")  # fmt: skip
_py("reopened-path", "f = os.open('a.txt', os.O_PATH)\n"
    "os.write(os.open(f'/dev/fd/{f}', os.O_WRONLY), b'new')", "a.txt")  # fmt: skip
_py("reopened-removed", """
f = os.open('made', os.O_RDWR | os.O_CREAT); os.unlink('made')
g = os.open(f'/proc/self/fd/{f}', os.O_RDWR); os.write(g, b'new'); print(os.pread(f, 9, 0))
""")  # fmt: skip
_py("reopened-memory", """
f = os.memfd_create('x'); os.write(os.open(f'/proc/self/fd/{f}', os.O_WRONLY), b'new')
print(os.pread(f, 9, 0))
""")  # fmt: skip
_py("reopened-pipe", """
r, w = os.pipe(); v = os.open(f'/proc/self/fd/{w}', os.O_WRONLY); os.write(v, b'new')
print(os.read(r, 9))
""")  # fmt: skip
_py("chmod-through-proc", "f = os.open('a.txt', os.O_PATH); os.chmod(f'/proc/self/fd/{f}', 0o600)",
    "a.txt")  # fmt: skip

# Where a path begins

_py("relative-to-descriptor", """
d = os.open('d', os.O_RDONLY | os.O_DIRECTORY)
os.write(os.open('one.txt', os.O_WRONLY | os.O_TRUNC, dir_fd=d), b'new')
os.rename('two.txt', 'three', src_dir_fd=d, dst_dir_fd=d); os.mkdir('made', dir_fd=d)
os.symlink('x', 'l', dir_fd=d); os.chmod('three', 0o600, dir_fd=d)
""", "d/one.txt")  # fmt: skip
_py("relative-to-path-descriptor", "d = os.open('d', os.O_PATH); os.unlink('one.txt', dir_fd=d)",
    "d/one.txt")  # fmt: skip
_py("relative-to-high-descriptor", """
d = os.open('d', os.O_RDONLY); os.dup2(d, 900)
os.write(must(OPENAT, 900, b'one.txt', os.O_WRONLY, 0), b'N')
""", "d/one.txt")  # fmt: skip
_py("changed-folder", "os.chdir('d/sub'); open('../../a.txt', 'w').write('new')", "a.txt")
_py("changed-folder-by-descriptor", "os.fchdir(os.open('d', os.O_PATH))\n"
    "open('one.txt', 'w').write('new')", "d/one.txt")  # fmt: skip
_py("folder-that-moved", """
os.mkdir('e'); os.chdir('e'); os.rename('../e', '../moved'); open('made', 'w').write('new')
print(sorted(os.listdir('..')), os.path.basename(os.getcwd()))
""")  # fmt: skip
_py("folder-that-is-gone", "os.mkdir('e'); os.chdir('e'); os.rmdir('../e')\n"
    "print(tried(os.open, 'made', os.O_CREAT | os.O_WRONLY))")  # fmt: skip
_py("thread-with-its-own-folder", """
def work():
    must(272, 0x200)  # unshare the folder
    os.chdir('d'); open('one.txt', 'w').write('from the thread')
t = threading.Thread(target=work); t.start(); t.join()
open('b.txt', 'w').write('from ' + os.path.basename(os.getcwd()))
""", "d/one.txt", quiet=True)  # fmt: skip
_py("thread-with-its-own-descriptors", """
def work():
    must(272, 0x400)  # unshare the descriptors
    f = os.open('made', os.O_CREAT | os.O_WRONLY); os.write(f, b'from the thread'); seen.append(f)
seen = []
t = threading.Thread(target=work); t.start(); t.join()
print(tried(os.fstat, seen[0]))
""", beside="a.txt")  # fmt: skip

# openat2

_py("openat2", "f = must(OPENAT2, AT, b'a.txt', struct.pack('QQQ', os.O_WRONLY, 0, 0), 24)\n"
    "os.write(f, b'new')", "a.txt")  # fmt: skip
_py("openat2-resolve", """
os.symlink('../b.txt', 'd/out')
d = os.open('d', os.O_RDONLY)
for name in (b'one.txt', b'../b.txt', b'out', b'sub/../two.txt', b'made'):
    for resolve in (0, 1, 2, 4, 8, 16, 32):
        how = struct.pack('QQQ', os.O_WRONLY | os.O_CREAT, 0o600, resolve)
        done = call(OPENAT2, d, name, how, 24)
        print(name, resolve, told(done))
        if done >= 0:
            os.close(done)
print(told(call(OPENAT2, AT, b'a.txt', struct.pack('QQQ', os.O_WRONLY, 0o600, 0), 24)))
print(told(call(OPENAT2, AT, b'a.txt', struct.pack('QQQ', os.O_WRONLY, 0, 64), 24)))
print(told(call(OPENAT2, AT, b'a.txt', struct.pack('QQQQ', os.O_WRONLY, 0, 0, 0), 32)))
print(told(call(OPENAT2, AT, b'a.txt', struct.pack('QQQQ', os.O_WRONLY, 0, 0, 1), 32)))
print(told(call(OPENAT2, AT, b'a.txt', struct.pack('QQQ', os.O_WRONLY, 0, 0), 8)))
""")  # fmt: skip

# Writing to files that are already open

_py("mapped", "f = open('a.txt', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:5] = b'ALPHA'; m.flush()",
    "a.txt")  # fmt: skip
_py("copy-file-range", "i, o = os.open('b.txt', 0), os.open('a.txt', os.O_WRONLY)\n"
    "print(os.copy_file_range(i, o, 99))", "a.txt")  # fmt: skip
_py("sendfile", "i, o = os.open('b.txt', 0), os.open('a.txt', os.O_WRONLY)\n"
    "print(os.sendfile(o, i, 0, 99))", "a.txt")  # fmt: skip
_py("splice", "r, w = os.pipe(); os.write(w, b'new')\n"
    "print(os.splice(r, os.open('a.txt', os.O_WRONLY), 3))", "a.txt")  # fmt: skip
_py("posix-fallocate", "os.posix_fallocate(os.open('a.txt', os.O_WRONLY), 0, 99)", "a.txt")
_py("written-in-vectors", "os.pwritev(os.open('a.txt', os.O_WRONLY), [b'n', b'ew'], 2)", "a.txt")
_py("handed-over", """
a, b = socket.socketpair()
socket.send_fds(a, [b'x'], [os.open('a.txt', os.O_WRONLY)])
os.write(socket.recv_fds(b, 1, 1)[1][0], b'new')
""", "a.txt")  # fmt: skip
_py("locked", """
f, g = (os.open('a.txt', os.O_RDWR) for _ in range(2))
fcntl.flock(f, fcntl.LOCK_EX); print(tried(fcntl.flock, g, fcntl.LOCK_EX | fcntl.LOCK_NB))
fcntl.flock(f, fcntl.LOCK_UN); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
if os.fork() == 0:
    again = os.open('a.txt', os.O_RDWR)
    print(tried(fcntl.lockf, again, fcntl.LOCK_EX | fcntl.LOCK_NB), flush=True)
    os._exit(0)
os.wait(); os.write(f, b'new')
""", "a.txt")  # fmt: skip
_py("socket", """
s = socket.socket(socket.AF_UNIX); s.bind('made'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('made'); print(oct(os.stat('made').st_mode))
os.unlink('made')
""", gap="Landlock refuses to create a name for a socket")  # fmt: skip

# Properties of a descriptor

_py("descriptors", """
for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_NONBLOCK,
              os.O_WRONLY | os.O_SYNC, os.O_RDWR | os.O_CLOEXEC, os.O_WRONLY | os.O_NOATIME,
              os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_LARGEFILE, os.O_RDONLY, os.O_PATH):
    f = must(OPENAT, AT, b'a.txt', flags, 0o600)
    print(f, oct(fcntl.fcntl(f, fcntl.F_GETFL)), fcntl.fcntl(f, fcntl.F_GETFD),
          os.path.basename(os.readlink(f'/proc/self/fd/{f}')), os.lseek(f, 0, 1) if
          flags != os.O_PATH else '')
""")  # fmt: skip
_py("lowest-descriptor", """
os.close(0); print(os.open('a.txt', os.O_RDWR)); a = os.open('b.txt', os.O_RDWR)
b = os.open('b.txt', os.O_RDWR); os.close(a); print(os.open('b.txt', os.O_RDWR) == a)
""")  # fmt: skip
_py("descriptors-used-up", """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
held = []
try:
    while len(held) < 50:
        held.append(os.open('a.txt', os.O_RDWR))
except OSError as e:
    print(errno.errorcode[e.errno], len(held))
""")  # fmt: skip
_py("file-size-limit", """
import resource, signal
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print(tried(os.truncate, 'a.txt', 99), os.stat('a.txt').st_size)
f = os.open('a.txt', os.O_WRONLY); print(tried(lambda: os.ftruncate(f, 99)))
""")  # fmt: skip
_py("not-kept-by-children", """
os.open('a.txt', os.O_WRONLY | os.O_CLOEXEC); os.set_inheritable(os.open('b.txt', os.O_RDWR), True)
sys.stdout.flush(); os.execvp('sh', ['sh', '-c', 'ls /proc/self/fd | wc -l'])
""")  # fmt: skip

# Errors

_py("errors-of-open", """
os.symlink('loop', 'loop'); os.symlink('none/x', 'dangling'); os.mkfifo('pipe')
W, C, X = os.O_WRONLY, os.O_CREAT, os.O_EXCL
for name, flags in (
    ('none', W), ('none/x', W | C), ('a.txt/x', W | C), ('d', W), ('d', os.O_RDWR), ('d', W | C),
    ('d/', W | C), ('made/', W | C), ('a.txt/', W), ('loop', W | C), ('dangling', W | C),
    ('a.txt', W | C | X), ('link', W | C | X), ('dangling', W | C | X), ('link', W | os.O_NOFOLLOW),
    ('x' * 256, W | C), ('y/' * 2100, W | C), ('', W | C), ('.', W), ('..', W), ('/', W),
    ('a.txt', W | os.O_DIRECTORY), ('made', W | C | os.O_DIRECTORY), ('d', os.O_TMPFILE),
    ('a.txt', os.O_TMPFILE | W), ('none', os.O_TMPFILE | W), ('pipe', W | os.O_NONBLOCK),
    ('d', os.O_RDONLY | os.O_TRUNC), ('d', os.O_RDONLY | C), ('a.txt', 3), ('link/x', W | C),
):
    print(name[:20], oct(flags), tried(os.open, name, flags))
print(told(call(OPENAT, AT, 0, W, 0)), told(call(OPENAT, AT, 1 << 50, W | C, 0)))
print(told(call(OPENAT, 77, b'a.txt', W, 0)), told(call(OPENAT, 0, b'a.txt', W, 0)))
print(told(call(OPENAT, 77, os.path.abspath('b.txt').encode(), W, 0)))
""")  # fmt: skip
_py("errors-of-names", """
os.symlink('loop', 'loop'); n = 'x' * 256
for what, *words in (
    (os.unlink, 'none'), (os.unlink, 'd'), (os.unlink, 'a.txt/'), (os.unlink, 'loop/x'),
    (os.rmdir, 'd'), (os.rmdir, 'a.txt'), (os.rmdir, 'none'), (os.rmdir, 'd/sub/.'),
    (os.rmdir, 'd/sub/..'), (os.mkdir, 'd'), (os.mkdir, 'a.txt'), (os.mkdir, 'none/x'),
    (os.mkdir, n), (os.mkdir, 'link'), (os.mkdir, ''), (os.mkdir, 'a.txt/x'),
    (os.rename, 'none', 'x'), (os.rename, 'a.txt', 'd'), (os.rename, 'd', 'a.txt'),
    (os.rename, 'd', 'd/sub/x'), (os.rename, 'd/sub', 'd'), (os.rename, 'a.txt', 'none/x'),
    (os.rename, 'a.txt', n), (os.rename, 'a.txt', 'b.txt/'), (os.rename, 'a.txt/', 'x'),
    (os.rename, '.', 'x'), (os.rename, 'a.txt', '..'), (os.rename, 'a.txt', ''),
    (os.rename, 'a.txt', '/dev/shm/corpus-cross'), (os.link, 'a.txt', '/dev/shm/corpus-cross'),
    (os.link, 'none', 'x'), (os.link, 'd', 'x'), (os.link, 'a.txt', 'b.txt'),
    (os.link, 'a.txt', 'd'), (os.link, 'a.txt', 'none/x'), (os.link, 'loop/x', 'y'),
    (os.symlink, 'x', 'a.txt'), (os.symlink, 'x', 'none/x'), (os.symlink, '', 'y'),
    (os.symlink, 'x', 'y/'), (os.mkfifo, 'a.txt'), (os.mkfifo, 'none/x'),
    (os.truncate, 'd', 0), (os.truncate, 'none', 0), (os.truncate, 'a.txt', -1),
    (os.chmod, 'none', 0o600), (os.chmod, 'loop', 0o600), (os.utime, 'none'),
    (os.chown, 'none', -1, -1), (os.setxattr, 'none', 'user.x', b''),
    (os.removexattr, 'a.txt', 'user.none'),
):
    print(what.__name__, [str(w)[:20] for w in words], tried(what, *words))
print([told(call(one, 0, 0, 0)) for one in (TRUNCATE, RENAME, MKDIR, RMDIR, LINK, UNLINK, SYMLINK)])
print([told(call(one, 0, 0, 0, 0)) for one in (CHMOD, CHOWN, MKNOD)])
""")  # fmt: skip
_py("text-file-busy", """
import subprocess, time
p = subprocess.Popen(['./sleep', '9'])
while os.readlink(f'/proc/{p.pid}/exe').rpartition('/')[2] != 'sleep':
    time.sleep(0.01)
print(tried(os.open, 'sleep', os.O_WRONLY)); p.kill(); p.wait()
""", before='cp "$(command -v sleep)" sleep')  # fmt: skip
_py("no-rights", """
os.chmod('d', 0o555); os.chmod('b.txt', 0o444)
if os.getuid() == 0:
    sys.exit()
print(tried(os.open, 'd/made', os.O_CREAT | os.O_WRONLY), tried(os.open, 'b.txt', os.O_WRONLY))
print(tried(os.unlink, 'd/one.txt'), tried(os.mkdir, 'd/x'), tried(os.rename, 'd/one.txt', 'x'))
""")  # fmt: skip
