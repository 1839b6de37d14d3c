"""Files that tools leave behind, also where git was not told to ignore them.

All agents' commands write these again and again, so no agent keeps a lease on them: the next test
run of another agent would be refused, or reported as damage.
"""

from __future__ import annotations

from holdfast.manager.files.paths import LEDGER_FOLDER

#: Names that nothing else has.
_CACHES = frozenset([
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
    ".eggs", ".coverage", "htmlcov", ".nyc_output", "node_modules", ".cache", ".parcel-cache",
    ".next", ".nuxt", ".turbo", ".gradle", ".venv", ".git", ".DS_Store", LEDGER_FOLDER,
])  # fmt: skip
_ENDS = (".pyc", ".pyo", ".o", ".log", ".tmp", ".swp", ".tsbuildinfo", "~")
#: Names that a folder of sources might have too.
_OUTPUTS = frozenset(["build", "coverage", "dist", "target", "venv"])


def is_cache(path: str) -> bool:
    """Whether a path is of a kind that every run of a tool writes anew."""
    return path.endswith(_ENDS) or not _CACHES.isdisjoint(path.split("/"))


def cache_folder(path: str) -> str:
    """The outermost folder around a path that is a cache as a whole; empty if none is."""
    parts = path.split("/")
    for at, name in enumerate(parts[:-1]):
        if name in _CACHES:
            return "/".join(parts[: at + 1])
    return ""


def is_left_over(path: str) -> bool:
    """Whether a path that is new to git is a tool's output rather than a source."""
    return is_cache(path) or not _OUTPUTS.isdisjoint(path.split("/"))
