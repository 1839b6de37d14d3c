"""The paragraph on Holdfast for AGENTS.md and CLAUDE.md.

An agent works correctly without having read it; one that has read it loses fewer turns to
refusals. Each command in it is run by a test.
"""

from __future__ import annotations

SNIPPET = """\
## Holdfast

Holdfast guards this repository, because several agents work in it at the same time. Each file
that you write is leased to you until you commit it, stop or end; no other agent can write it
meanwhile.

- Your edits and your shell commands take their leases by themselves. You need no command for that.
- A refusal names the holder of the file, since when, and when your one retry is due. Work on
  something else until then. Do not work around the lock: no other tool, no script, no copy of the
  file, no `git commit --no-verify`, no change to `.holdfast/` or to the hooks.
- When you are told that a file came free, read it again before you edit it.
- When you are told that you are blocked, stop and tell your user.
- A command that must have its files for its whole run: `holdfast run --write PATH -- COMMAND`.
- Who holds what, and who waits: `holdfast status`. Whether you could write a file now:
  `holdfast check PATH`.
- Commit finished work soon: the commit releases its files.
"""
