"""Extended attributes and access lists: read from one open file, and set on another.

User attributes (`user.`), access lists, capabilities and, for root, `trusted.` are kept. Labels
that the system assigns (such as those of SELinux) are not: the system assigns them again.
"""

from __future__ import annotations

import base64
import errno
import os

_KEPT = ("user.", "system.posix_acl_", "trusted.", "security.capability")
_NONE = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA, errno.EPERM)


def read(descriptor: int) -> dict[str, str]:
    """The kept attributes of an open file, as texts."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        if error.errno in _NONE:
            return {}
        raise
    found = {}
    for name in names:
        if name.startswith(_KEPT):
            found[name] = base64.b64encode(os.getxattr(descriptor, name)).decode("ascii")
    return found


def write(descriptor: int, attributes: dict[str, str]) -> list[str]:
    """Set these attributes on an open file. Returns the names of those that the system refused."""
    if not hasattr(os, "setxattr"):
        return list(attributes)
    refused = []
    for name, text in attributes.items():
        try:
            os.setxattr(descriptor, name, base64.b64decode(text))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            refused.append(name)
    return refused
