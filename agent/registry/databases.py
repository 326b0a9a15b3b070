"""The database that a URL means.

One host's records are in an SQLite file, which the standard library reads.  A fleet's are
behind SQLAlchemy, which takes 25 MiB: it is loaded for such a database only.
"""

import re

from agent.registry.database import Database
from agent.registry.errors import RegistryUnavailable

_FILE = re.compile(r"sqlite(?:\+pysqlite)?://(?:/(?P<path>[^?]*))?(?:\?.*)?")


def open_database(
    connection: str, *, option: str = "[registry] connection", own: bool = False
) -> Database:
    """Return the database of a URL, not connected yet.  ``option`` says where the URL was set.

    ``own``: for the agent of the one host whose file it is, if it is one.

    :raises RegistryUnavailable: the URL can't be used.
    """
    file = _FILE.fullmatch(connection)
    if file is None:
        from agent.registry.fleet_database import FleetDatabase  # noqa: PLC0415  SQLAlchemy

        return FleetDatabase.of(connection, option)
    if not file["path"]:
        raise RegistryUnavailable(f"{option}: {connection} names no file")
    from agent.registry.host_database import HostDatabase  # noqa: PLC0415  sqlite3

    return HostDatabase(file["path"], own)
