"""The result of reading a command line."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class TreeVerb(Value):
    """A git verb that may change any file of a working tree.

    `argv` are the words after the verb, `folder` is where git works (empty if that is unknown).
    Not `plain`: some words are unknown before the command runs; `argv` has them as typed.
    """

    __slots__ = ("argv", "folder", "plain", "verb")

    def __init__(self, verb: str, argv: tuple[str, ...], folder: str, plain: bool = True) -> None:
        self.verb: Final = verb
        self.argv: Final = argv
        self.folder: Final = folder
        self.plain: Final = plain


class Reading(Value):
    """What a command line plainly writes.

    `writes` are absolute paths, joined with the folder they are read from and nothing else: `..`
    is still in them, since only the file system knows where it leads. A path that ends in a slash
    means everything below that folder. `absent` are those of them that it only removes and that do
    not exist, `fleeting` those that it makes and removes again. `visits` are paths elsewhere:
    folders that it enters, and paths there that programs get. `unsure`: it may write files that its
    text does not show. `alters`: it changes something other than a file of the tree (an empty
    folder, a mode, git's own data, a process). `programs`: the names of the programs that it calls.
    `problem`: why it could not be parsed at all.
    """

    __slots__ = (
        "absent", "alters", "fleeting", "problem", "programs", "trees", "unsure", "visits",
        "writes",
    )  # fmt: skip

    def __init__(
        self,
        writes: tuple[str, ...] = (),
        trees: tuple[TreeVerb, ...] = (),
        unsure: bool = False,
        problem: str = "",
        *,
        absent: frozenset[str] = frozenset(),
        fleeting: frozenset[str] = frozenset(),
        visits: tuple[str, ...] = (),
        alters: bool = False,
        programs: frozenset[str] = frozenset(),
    ) -> None:
        self.writes: Final = writes
        self.trees: Final = trees
        self.unsure: Final = unsure
        self.problem: Final = problem
        self.absent: Final = absent
        self.fleeting: Final = fleeting
        self.visits: Final = visits
        self.alters: Final = alters
        self.programs: Final = programs

    @property
    def only_reads(self) -> bool:
        """Whether it is proven that the line changes nothing at all."""
        return not (self.writes or self.trees or self.unsure or self.alters or self.problem)
