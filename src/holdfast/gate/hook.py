"""The program that clients start as their hook: `python -I -S hook.py CLIENT`, or read and
executed by a Python that has its path and the client as `sys.argv`.

Started like this the interpreter searches only its own library, which halves its start. So this
file finds its own package, and the bundle made of that, by itself. It is compiled each time it
runs, so it is short and plain.
"""

import gc
import sys
from marshal import loads

if __name__ == "__main__":
    gc.disable()  # it would search for garbage among the modules a dozen times
    here = sys.argv[0].rpartition("/")[0] or "."
    names: dict = {"__name__": "holdfast.gate.door.unbundle"}  # type: ignore[type-arg]
    try:
        made = here + "/__pycache__/hook." + sys.implementation.cache_tag + ".bundle"
        file = open(made, "rb", 0)  # noqa: SIM115 - it stays open: more may be read from it
        code, *parts = loads(file.read(int(file.read(8))))
        exec(code, names)
        names["lighten"]()
        names["use"](file, here, *parts)
    except Exception:  # then everything is imported as usual
        pass
    sys.path.insert(0, here.removesuffix("/holdfast/gate") if "/" in here else here + "/../..")
    try:
        from holdfast.gate.door.hook_process import main
    except BaseException as error:  # half an upgrade: only events that may write are refused
        import json

        event = ""
        try:
            if sys.argv[1:2] != ["git"]:
                event = json.load(sys.stdin)["hook_event_name"]
        except BaseException:
            pass  # in doubt it may write
        if isinstance(event, str) and event not in ("", "PreToolUse"):
            sys.exit(0)
        sys.stderr.write(f"holdfast: refused, the gate cannot start: {error!r}\n")
        sys.exit(2)
    main(sys.argv[1:])
