"""The database: how it is opened, and whether its schema is up to date."""

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import engines

from agent.registry.errors import RegistryUnavailable

NEWEST = "0002"
"""The last of the migrations; a test holds it against them."""
# MySQL means a part of UTF-8 by "utf8", which is what oslo.db asks for.
_ALL_CHARACTERS = {"charset": "utf8mb4"}
_UNSAID = {
    "sqlite": {"timeout": "20"},
    "mysql": {"connect_timeout": "5", "read_timeout": "20", "write_timeout": "20"}
    | _ALL_CHARACTERS,
    "postgresql": {"connect_timeout": "5", "options": "-c statement_timeout=20000"},
}
"""By default none of these ever gives up waiting."""


def open_engine(
    connection: str, *, connections: int = 10, option: str = "[registry] connection"
) -> sa.Engine:
    """An engine over the database of this URL, that tests each connection before it is used.

    Nothing is connected yet; ``option`` says where the URL was set.

    :raises RegistryUnavailable: the URL can't be used.
    """
    try:
        url = sa.make_url(connection)
        defaults = _UNSAID.get(url.get_backend_name(), {})
        unsaid = {name: value for name, value in defaults.items() if name not in url.query}
        engine: sa.Engine = engines.create_engine(
            url.update_query_dict(unsaid), max_retries=0, max_pool_size=connections
        )
    except (sa.exc.ArgumentError, ImportError, ValueError) as err:
        # A ValueError is about the port: the URL's pattern takes anything there.
        why = f"the port is no number: {err}" if isinstance(err, ValueError) else err
        raise RegistryUnavailable(f"{option}: {why}") from err
    if url.port is not None and not 0 < url.port < 65536:
        raise RegistryUnavailable(f"{option}: there is no port {url.port}")
    if engine.dialect.name == "sqlite":
        # Readers do not wait for the writer, nor it for them.
        sa.event.listen(engine, "connect", _use_wal)
    return engine


def _use_wal(connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # A power cut may take the last heartbeats; it damages nothing.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def upgrade(engine: sa.Engine) -> None:
    """Bring the schema up to date, once, whoever else tries to at the same time.

    :raises RegistryUnavailable: the database can't be reached, or can't be changed.
    """
    if is_newest(engine):
        return
    # Every agent with a database of its own would carry Alembic (12 MiB) for its whole life,
    # to find nothing to do.
    from agent.registry.migrate import migrate  # noqa: PLC0415

    try:
        migrate(engine)
    except (db_exception.DBError, sa.exc.SQLAlchemyError, OSError) as err:
        raise RegistryUnavailable(
            f"{shown(engine)}: {one_line(err)}; is the database up, and may we use it?"
        ) from err


def is_newest(engine: sa.Engine) -> bool:
    """Whether there is nothing to migrate; not where that can't be found out."""
    try:
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
            (version,) = found.scalars().all()
            return str(version) >= NEWEST  # a later one only adds to it
    except (db_exception.DBError, sa.exc.SQLAlchemyError, ValueError):
        return False


def shown(engine: sa.Engine) -> str:
    """The URL, without its password."""
    return engine.url.set(query={}).render_as_string(hide_password=True)


def one_line(err: Exception) -> str:
    """What the database said, without the statement that it said it about."""
    return str(err).partition("\n")[0]
