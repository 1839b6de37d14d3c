"""The scripts of a fight: the agent of every task, and the package's test that is its check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The files that tasks share. `chosen` says which of them a task marks.
SHARED = tuple(f"shop/{name}.py" for name in (
    "carts", "coupons", "names", "orders", "prices", "refunds", "stock", "users",
))  # fmt: skip
#: Two tasks of a deadlock mark both of these, each starting with another one.
CIRCLE = ("shop/left.py", "shop/right.py")
#: The file that a process that was left behind goes on writing.
JOURNAL = "shop/journal.log"
CHECKLIST = "TODO.md"

#: How agents, checks and the witness read and write a shared file. The last line has the sum of all
#: before, so a half-written file can be recognised.
MARKS = '''
import hashlib

def signed(body):
    return f"{body}# sum {hashlib.sha256(body.encode()).hexdigest()}\\n"

def names(text):
    """The marks in a file, as they follow each other; None if it is not whole."""
    body, _, _ = text.rpartition("# sum ")
    if signed(body) != text:
        return None
    return [line[6:-2] for line in body.splitlines() if line.startswith('mark("')]

def chosen(name, shared):
    dice = hashlib.sha256(name.encode()).digest()
    return sorted({shared[one % len(shared)] for one in dice[: 2 + dice[8] % 2]})
'''

#: `agent.py PROMPT NAME EVIDENCE`. Words of the prompt select what the task goes through. The agent
#: records forbidden observations in the evidence, which no rollback reaches.
AGENT = f'''
import errno, json, os, random, sys, time
{MARKS}
prompt, name, evidence = sys.argv[1:]
words = prompt.partition("\\n\\n")[0].split()
SHARED, CIRCLE, JOURNAL = {SHARED!r}, {CIRCLE!r}, {JOURNAL!r}
rest = lambda: time.sleep(random.uniform(0.0, 0.03))

def trouble(said):
    with open(f"{{evidence}}/trouble-{{name}}-{{os.getpid()}}", "a") as file:
        file.write(said + "\\n")
    sys.exit(said)

def body_of(path, text):
    found = names(text)
    if found is None:
        trouble(f"{{path}} is half written, though it is leased: {{text!r}}")
    if name in found:
        trouble(f"{{path}} has the mark of {{name}} already")
    return text.rpartition("# sum ")[0] + f'mark("{{name}}")\\n'

def put(fd, data):
    """All of it, or nothing: a full disk takes a part before it refuses."""
    written = os.write(fd, data)
    if written < len(data):
        os.ftruncate(fd, os.fstat(fd).st_size - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

def write(fd, text):
    data = text.encode()
    put(fd, data[: len(data) // 2])
    rest()
    put(fd, data[len(data) // 2 :])

def in_place(path):
    before = open(path).read()
    fd = os.open(path, os.O_RDWR)
    now = os.read(fd, 1 << 20).decode()
    if now != before:
        trouble(f"{{path}} was changed after it was read, and the write was not refused")
    text = signed(body_of(path, now))
    os.lseek(fd, 0, os.SEEK_SET)
    os.ftruncate(fd, 0)
    write(fd, text)
    os.close(fd)

def replaced(path):
    fd = os.open(path, os.O_RDWR)  # leased first: what is beside it is only ours as well then
    text = signed(body_of(path, os.read(fd, 1 << 20).decode()))
    os.close(fd)
    new = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    write(new, text)
    os.close(new)
    os.rename(path + ".new", path)

def mark(path):
    for _ in range(20):
        try:
            return random.choice([in_place, replaced])(path)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            if random.random() < 0.3:
                sys.exit(f"{{path}} is old, and I give up")
    trouble(f"{{path}} was old twenty times")

def orphan():
    fd = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND)
    line = f"{{name}} {{os.getpid()}}\\n".encode()
    put(fd, line)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.closerange(0, 3)
        seen = os.open(f"{{evidence}}/orphan-{{os.getpid()}}", os.O_WRONLY | os.O_CREAT)
        while True:
            put(fd, line)
            os.write(seen, b".")
            time.sleep(0.002)

def meet(circle, side):
    """Both have marked one file before either goes on; a task that comes alone does not wait."""
    open(f"{{evidence}}/met-{{circle}}-{{side}}", "w").close()
    end, other = time.monotonic() + 2, f"{{evidence}}/met-{{circle}}-{{1 - side}}"
    while time.monotonic() < end and not os.path.exists(other):
        time.sleep(0.005)

def make_part():
    os.makedirs(f"shop/parts/{{name}}", exist_ok=True)
    with open(f"shop/parts/{{name}}/part.py", "w") as file:
        file.write(f"NAME = {{name!r}}\\n")
        if "careless" in words and not is_fixing:
            file.write("half of it, as the check will find\\n")
        if "hopeless" in words:
            file.write("half of it, and never whole\\n")
    os.chmod(f"shop/parts/{{name}}/part.py", 0o755)

is_fixing = "Your changes are in place" in prompt
if is_fixing:
    make_part()
    sys.exit()
files = chosen(name, SHARED)
random.shuffle(files)
for word in words:
    if word.startswith("circle="):
        circle, side = map(int, word[7:].split(","))
        mark(CIRCLE[side])
        meet(circle, side)
        files.insert(0, CIRCLE[1 - side])
if "orphan" in words:
    orphan()
if "reaches" in words:
    try:
        open({CHECKLIST!r}, "a").close()
    except OSError:
        pass
    else:
        trouble("the list of the task can be written by it")
for path in files:
    mark(path)
    rest()
os.makedirs(f"shop/parts/{{name}}", exist_ok=True)
with open(f"shop/parts/{{name}}/part.py", "w") as file:
    file.write(f"NAME = {{name!r}}\\n")
    if "careless" in words and "Your changes are in place" not in prompt:
        file.write("half of it, as the check will find\\n")
    if "hopeless" in words:
        file.write("half of it, and never whole\\n")
os.chmod(f"shop/parts/{{name}}/part.py", 0o755)
os.unlink(f"todo/{{name}}.txt")
'''

#: The test of the package that is the check of a task: it reads the files of that task alone,
#: because those of others may be half written at any moment.
PACKAGE_TEST = f"""
import os, unittest
{MARKS}
NAME, SHARED = os.environ["HOLDFAST_TASK"], {SHARED!r}

class Marks(unittest.TestCase):
    def test_the_files_of_the_task(self):
        for path in chosen(NAME, SHARED):
            self.assertEqual(names(open(path).read()).count(NAME), 1, path)
        compile(open(f"shop/parts/{{NAME}}/part.py").read(), "part.py", "exec")

unittest.main()
"""
_space: dict[str, Any] = {}
exec(MARKS, _space)  # the witness and the agents read files in the same way
signed: Callable[[str], str] = _space["signed"]
names_in: Callable[[str], list[str] | None] = _space["names"]


def chosen(name: str) -> list[str]:
    """The shared files that a task marks."""
    found: list[str] = _space["chosen"](name, SHARED)
    return found
