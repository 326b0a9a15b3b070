"""The one table, and the database's clock in the words of each engine."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

# Thousands of roots: MySQL's TEXT ends at 64 KiB.
_LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")

METADATA = sa.MetaData()
SERVICES = sa.Table(
    "services",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("host", sa.String(255), nullable=False, unique=True),
    sa.Column("binary", sa.String(255), nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", sa.String(255)),
    sa.Column("disabled_at", sa.Double),
    sa.Column("forced_down", sa.Boolean, nullable=False),
    sa.Column("rpc_version", sa.String(32)),
    # Seconds since the epoch: every engine has its own idea of times with zones.
    sa.Column("last_seen", sa.Double),
    sa.Column("roots", _LONG_TEXT, nullable=False),
    sa.Column("address", sa.String(255)),
    sa.Column("contested_by", sa.String(255)),
    sa.Column("contested_at", sa.Double),
    sa.Column("version", sa.Integer, nullable=False),
    mysql_charset="utf8mb4",
    mysql_collate="utf8mb4_bin",
    mysql_engine="InnoDB",
)


class Now(FunctionElement[float]):
    """Seconds since the epoch by the database's clock, with a fraction."""

    type = sa.Double()
    inherit_cache = True


@compiles(Now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(Now, "mysql")
@compiles(Now, "mariadb")
def _mysql(*_: Any, **__: Any) -> str:
    return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)"


@compiles(Now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # Of this statement, not of the transaction's start.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
