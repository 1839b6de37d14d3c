"""A hook that writes down what it was told, and answers what the test wants.

    python recording_hook.py LOG ANSWERS

Each call adds one line of JSON to LOG: the client's data, the environment, and the processes above
it. ANSWERS is a JSON file that maps an event (`PreToolUse`) or an event and a tool
(`PreToolUse:Write`) to `{"stdout": ..., "stderr": ..., "code": ...}`; it is read anew at each call.
"""

import json
import os
import sys


def ancestors() -> list[dict[str, object]]:
    """The processes above this one, nearest first: pid and command line, where /proc tells."""
    found: list[dict[str, object]] = []
    pid = os.getppid()
    while pid > 1 and len(found) < 20:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")[:-1]
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            break
        found.append({"pid": pid, "command": words})
        pid = parent
    return found


def main(log: str, answers: str) -> int:
    text = sys.stdin.buffer.read().decode(errors="surrogateescape")
    data = json.loads(text)
    record = {
        "data": data,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        "ancestors": ancestors(),
    }
    line = json.dumps(record) + "\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)
    with open(answers) as opened:
        known = json.load(opened)
    event = data.get("hook_event_name", "")
    answer = known.get(f"{event}:{data.get('tool_name', '')}") or known.get(event) or {}
    sys.stdout.write(answer.get("stdout", ""))
    sys.stderr.write(answer.get("stderr", ""))
    return int(answer.get("code", 0))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
