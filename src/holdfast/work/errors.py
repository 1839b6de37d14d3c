"""Work that cannot be begun, gone on with or forgotten as it is: for screens and for tasks."""

from __future__ import annotations

from holdfast.core.errors import Refused


class WorkError(Refused):
    """There is no work to go on with, or there is some and it does not allow what was asked."""

    code = "E_WORK"
