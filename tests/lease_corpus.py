"""Tools and ways to write, as people and agents use them: each with the file that it changes.

A case runs in a folder of its own with the files of `WORLD` in it, or, if it is about git, in a
repository of its own (`lease_corpus_git.py`). The rows are in the modules beside this one, by the
tools that they run; `lease_world.py` describes the format of a row.
"""

from __future__ import annotations

import lease_corpus_builds
import lease_corpus_files
import lease_corpus_git
import lease_corpus_languages
import lease_corpus_python
import lease_corpus_shells
import lease_corpus_syscalls
from lease_world import Case

#: The cases that share a repository, each in a folder of its own, by the batch that they run in.
BATCHES: dict[str, list[Case]] = {
    "shells": lease_corpus_shells.ROWS,
    "files": lease_corpus_files.ROWS,
    "python": lease_corpus_python.ROWS,
    "syscalls": lease_corpus_syscalls.ROWS,
    "languages": lease_corpus_languages.ROWS,
    "builds": lease_corpus_builds.ROWS,
}
#: The cases that need a repository for themselves.
ALONE: list[Case] = lease_corpus_git.ROWS
