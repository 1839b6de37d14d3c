"""What a command that watches says while the server of its ledger is away; then it goes on."""

from __future__ import annotations

from holdfast.cli.printing import plain, talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.root_errors import StoreError


class Outage:
    """Whether the server is away. Each change is said once."""

    def __init__(self) -> None:
        self.is_on = False

    def begin(self, error: StoreError) -> None:
        """The ledger could not be read. Raises the error if waiting does not end it."""
        if not error.is_away:
            raise error
        if not self.is_on:
            self.is_on = True
            talk(f"holdfast: {plain(error.message)}")
            talk("  -> this goes on when the server is back")

    def end(self) -> None:
        """The ledger was read."""
        if self.is_on:
            self.is_on = False
            talk("holdfast: the ledger's server is back")
