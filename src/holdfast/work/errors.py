"""Work that cannot be started, continued or forgotten in its present state: for screens and
tasks."""

from __future__ import annotations

from holdfast.core.errors import Refused


class WorkError(Refused):
    """There is no work to continue, or the present work does not allow what was asked."""

    code = "E_WORK"
