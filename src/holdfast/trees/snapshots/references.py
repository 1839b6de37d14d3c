"""Which snapshot a text names: a tag, an id or the beginning of one, the id that another program
gave it, or a note.

An ambiguous text is refused, and the refusal lists what it could mean.
"""

from __future__ import annotations

from holdfast.trees.errors import NoTreeError, shown
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors, tags
from holdfast.trees.snapshots.descriptors import SHORT_CHARACTERS, Descriptor

_NAMED_MAX = 5


def find(repository: Repository, text: str) -> str:
    """The id of the snapshot that a text names."""
    tag = tags.find(repository, text)
    if tag is not None:
        return tag.snapshot_id
    if descriptors.is_beginning(text.lower()):
        try:
            return descriptors.find(repository, text)
        except NoTreeError:
            found = _by_words(repository, text)
            if found:
                return _only(found, text)
            raise
    found = _by_words(repository, text)
    if not found:
        raise NoTreeError(
            f"no snapshot has the id, the tag or the note {shown(text[:80])!r}",
            hint="holdfast tree history --all shows them",
        )
    return _only(found, text)


def _by_words(repository: Repository, text: str) -> list[Descriptor]:
    """The snapshots with that note, or that id in another program; if there are none, those whose
    note begins with the text."""
    if not text.strip():
        return []
    every = [descriptors.listed(repository, id) for id in descriptors.visible_ids(repository)]
    exact = [one for one in every if text in (one.get("note"), _elsewhere(one))]
    return exact or [one for one in every if str(one.get("note", "")).startswith(text)]


def _elsewhere(fields: Descriptor) -> str:
    origin = fields.get("origin")
    return str(origin.get("snapshot_id", "")) if isinstance(origin, dict) else ""


def _only(found: list[Descriptor], text: str) -> str:
    if len(found) == 1:
        return str(found[0]["snapshot_id"])
    latest = sorted(found, key=lambda one: str(one["created_at"]), reverse=True)
    some = ", ".join(
        f"{one['snapshot_id'][:SHORT_CHARACTERS]} of {one['created_at']}"
        for one in latest[:_NAMED_MAX]
    )
    raise NoTreeError(
        f"{len(found)} snapshots have a note like {shown(text[:80])!r}: {some}"
        + (" and more" if len(found) > _NAMED_MAX else ""),
        hint="name one by its id, or give it a tag: holdfast tree tag add NAME SNAPSHOT",
        snapshot_ids=[one["snapshot_id"] for one in latest],
    )
