"""Why the certificate of a server was refused. The driver says only that it was.

The handshake is made once more, without the driver. Nothing of the ledger is sent, and an answer
that cannot be had is no answer: the driver's words are enough to go on with.
"""

from __future__ import annotations

import os

from psycopg import Error, conninfo

#: How long the server may take to show its certificate again.
PATIENCE_SECONDS = 3.0
#: The request to encrypt the connection, with which a client begins.
_REQUEST = bytes((0, 0, 0, 8, 4, 210, 22, 47))
#: OpenSSL's numbers: no certificate of the root file signed it.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_NOT_YET_VALID, _EXPIRED = 9, 10


def why_refused(address: str) -> str:
    """What is wrong with the certificate of the server with this URL; empty if that is unknown."""
    import socket
    import ssl

    try:
        told = conninfo.conninfo_to_dict(address)
        host = str(told.get("hostaddr") or told.get("host") or os.environ.get("PGHOST", ""))
        port = int(told.get("port") or os.environ.get("PGPORT") or 5432)
        root = root_of(told.get("sslrootcert"))
        context = ssl.create_default_context(cafile=None if root == "system" else root)
        context.check_hostname = False
        with socket.create_connection((host, port), PATIENCE_SECONDS) as connection:
            connection.sendall(_REQUEST)
            if connection.recv(1) == b"S":
                context.wrap_socket(connection).close()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            return "it has expired"
        if error.verify_code == _NOT_YET_VALID:
            return "it is not valid yet; is the clock of this machine right?"
        if error.verify_code in _UNKNOWN_AUTHORITY:
            return f"it is signed by none of the authorities in {root}"
        return error.verify_message
    except (Error, OSError, ValueError):  # several hosts, for example
        return ""
    return ""


def root_of(named: object) -> str:
    """The file with the authorities that the driver trusts."""
    found = named or os.environ.get("PGSSLROOTCERT")
    return str(found) if found else os.path.expanduser("~/.postgresql/root.crt")
