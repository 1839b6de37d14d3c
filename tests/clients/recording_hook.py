"""A hook that records its input, and gives the answer that the test has set.

    python recording_hook.py LOG ANSWERS

Each call adds one line of JSON to LOG: the client's data, the environment, and the processes above
it. ANSWERS is a JSON file that maps an event (`PreToolUse`) or an event and a tool
(`PreToolUse:Write`) to `{"stdout": ..., "stderr": ..., "code": ...}`; it is read anew at each call.
With `"until": PATH` the hook answers when that file exists; a signal that ends the hook meanwhile
is recorded as an event `SIGTERM`, if the hook can catch it. With `"once": true` the hook does not
answer an agent that a hook has made continue.
"""

import json
import os
import signal
import sys
import time


def ancestors() -> list[dict[str, object]]:
    """The processes above this one, nearest first: pid and command line, where /proc has them."""
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


def write_down(log: str, record: dict[str, object]) -> None:
    line = json.dumps(record) + "\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)


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
    write_down(log, record)
    with open(answers) as opened:
        known = json.load(opened)
    event = data.get("hook_event_name", "")
    answer = known.get(f"{event}:{data.get('tool_name', '')}") or known.get(event) or {}
    if answer.get("once") and data.get("stop_hook_active"):
        answer = {}
    if answer.get("until"):

        def ended(*_: object) -> None:
            write_down(log, {**record, "data": {**data, "hook_event_name": "SIGTERM"}})
            os._exit(1)

        signal.signal(signal.SIGTERM, ended)
        while not os.path.exists(answer["until"]):
            time.sleep(0.02)
    sys.stdout.write(answer.get("stdout", ""))
    sys.stderr.write(answer.get("stderr", ""))
    return int(answer.get("code", 0))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
