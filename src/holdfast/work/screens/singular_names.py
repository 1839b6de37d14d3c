"""The singular of a controller's name, by which its model is found.

It has rules for the English of controller names, and a list of exceptions. For a name that no rule
gets right, set `[work.model]` in `holdfast.toml`.
"""

from __future__ import annotations

_IRREGULAR = {
    "children": "child", "feet": "foot", "geese": "goose", "men": "man", "mice": "mouse",
    "oxen": "ox", "people": "person", "teeth": "tooth", "women": "woman",
    "data": "datum", "media": "medium", "criteria": "criterion", "indices": "index",
    "matrices": "matrix", "vertices": "vertex", "quizzes": "quiz",
    "movies": "movie", "cookies": "cookie", "ties": "tie", "pies": "pie", "shoes": "shoe",
    "halves": "half", "knives": "knife", "leaves": "leaf", "lives": "life", "loaves": "loaf",
    "shelves": "shelf", "thieves": "thief", "wives": "wife", "wolves": "wolf",
}  # fmt: skip
#: Words with the same singular and plural, and words that only look like a plural.
_UNCHANGED = frozenset(
    ("equipment", "fish", "information", "money", "news", "police", "rice", "series", "sheep",
     "species", "alias", "atlas", "axis", "bias", "bonus", "bus", "campus", "canvas", "census",
     "consensus", "corpus", "focus", "gas", "lens", "radius", "status", "virus")
)  # fmt: skip
#: The end of a plural, how much of it is removed, and what replaces it; the first match counts.
_ENDINGS = (
    ("ouses", 1, ""), ("auses", 1, ""), ("uses", 2, ""), ("iases", 2, ""),
    ("sses", 2, ""), ("xes", 2, ""), ("ches", 2, ""), ("shes", 2, ""), ("zzes", 2, ""),
    ("lyses", 2, "is"), ("gnoses", 2, "is"), ("crises", 2, "is"), ("theses", 2, "is"),
    ("oes", 2, ""), ("ies", 3, "y"), ("ss", 0, ""), ("sis", 0, ""), ("s", 1, ""),
)  # fmt: skip


def singular(name: str) -> str:
    """The singular of a name: `line_item` for `line_items`. The case of what stays is kept."""
    start = max(name.rfind("_"), name.rfind("-"), name.rfind(" ")) + 1
    head, word = name[:start], name[start:]
    lower = word.lower()
    if lower in _UNCHANGED:
        return name
    if lower in _IRREGULAR:
        found = _IRREGULAR[lower]
        return head + (found.capitalize() if word[:1].isupper() else found)
    for ending, goes, comes in _ENDINGS:
        if lower.endswith(ending) and len(lower) > len(ending):
            return head + word[: len(word) - goes] + comes
    return name
