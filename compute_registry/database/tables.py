"""The tables of the fleet's database, and its two clocks; times are seconds since the epoch."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

METADATA = sa.MetaData()
_ENGINE: Any = {
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mysql_engine": "InnoDB",
}

SERVICES = sa.Table(
    "services",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("host", sa.String(255), nullable=False, unique=True),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    sa.Column("ordered", sa.Integer, nullable=False, default=0),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False),
    sa.Column("disabled_reason", sa.String(255)),
    sa.Column("disabled_at", sa.Double),
    sa.Column("forced_down", sa.Boolean, nullable=False, default=False),
    sa.Column("address", sa.String(255)),
    sa.Column("rpc_version", sa.String(32)),
    sa.Column("attached", sa.Boolean, nullable=False, default=False),
    sa.Column("agent_version", sa.String(255), nullable=False, default=""),
    sa.Column("degraded", sa.String(2000), nullable=False, default=""),
    sa.Column("last_seen", sa.Double),
    sa.Column("heard", sa.Double),
    sa.Column("contested_by", sa.String(255)),
    sa.Column("contested_since", sa.Double),
    sa.Column("contested_at", sa.Double),
    **_ENGINE,
)
"""``ordered`` is the version that an operator's last change led to, 0 before the first.

``contested_since`` and ``contested_at``: when ``contested_by`` was first and last refused.  These
and ``heard`` are times of ``CLOCK``, the others of ``NOW``.
"""

ROOTS = sa.Table(
    "roots",
    METADATA,
    sa.Column("root", sa.String(36), primary_key=True),
    sa.Column(
        "service_id",
        sa.Integer,
        sa.ForeignKey("services.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    **_ENGINE,
)
"""The root providers of services: each belongs to one."""

CLOCK_ROW = sa.Table(
    "clock",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("ticked_at", sa.Double, nullable=False),
    mysql_engine="InnoDB",
)
"""One row, for ``CLOCK``."""

LONGEST_TICK = 5.0
"""Seconds between two ticks of the clock, at most; in a longer time without a tick it stands still.
Registries tick once a second."""


class Now(FunctionElement[float]):
    """The time by the database's clock, with a fraction."""

    type = sa.Double()
    inherit_cache = True


_NOW = {
    "mysql": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
    "sqlite": "now_in_seconds()",  # see add_functions
}


@compiles(Now)  # each database has a function of its own for it, so Core has none
def _now(_: Now, compiler: Any, **__: Any) -> str:
    return _NOW["mysql" if compiler.dialect.name == "mariadb" else compiler.dialect.name]


NOW = Now()
_PASSED = sa.func.least(sa.func.greatest(NOW - CLOCK_ROW.c.ticked_at, 0), LONGEST_TICK)
CLOCK = sa.select(CLOCK_ROW.c.seconds + _PASSED).scalar_subquery()
"""A time that stands still while no registry records heartbeats, and that jumps of the database's
own clock do not change."""
# In this order: in MySQL an assignment sees the results of those before it.
TICK = CLOCK_ROW.update().ordered_values(
    (CLOCK_ROW.c.seconds, CLOCK_ROW.c.seconds + _PASSED), (CLOCK_ROW.c.ticked_at, NOW)
)
"""Keeps ``CLOCK`` going."""
