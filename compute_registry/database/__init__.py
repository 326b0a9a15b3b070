"""The database of compute-registry: MariaDB, PostgreSQL, or the SQLite file of one host."""

from agent.registry.database import Database
from agent.registry.errors import RegistryUnavailable
from agent.registry.host_database import HostDatabase
from agent.registry.opts import sqlite_file


def open_database(connection: str, *, option: str = "[registry] connection") -> Database:
    """Return the database of a URL, not connected yet.

    ``option``: the option and, where known, the file and line that set the URL.

    :raises RegistryUnavailable: the URL can't be used.
    """
    file = sqlite_file(connection)
    if file:
        return HostDatabase(file)
    if file is not None:
        raise RegistryUnavailable(f"{option}: {connection} has no path of a file")
    # Loading SQLAlchemy takes 25 MiB, not needed for an SQLite file.
    from compute_registry.database.fleet_database import FleetDatabase  # noqa: PLC0415

    return FleetDatabase.from_url(connection, option)
