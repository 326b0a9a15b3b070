"""The services, their roots, and the clock of heartbeats."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ENGINE: Any = {
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mysql_engine": "InnoDB",
}


def upgrade() -> None:
    """Create the tables; ``clock`` has one row."""
    op.create_table(
        "services",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
        sa.Column("host", sa.String(255), nullable=False, unique=True),
        sa.Column("binary", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("disabled_reason", sa.String(255)),
        sa.Column("disabled_at", sa.Double),
        sa.Column("forced_down", sa.Boolean, nullable=False),
        sa.Column("address", sa.String(255)),
        sa.Column("rpc_version", sa.String(32)),
        sa.Column("attached", sa.Boolean, nullable=False),
        sa.Column("agent_version", sa.String(255), nullable=False),
        sa.Column("degraded", sa.String(2000), nullable=False),
        sa.Column("last_seen", sa.Double),
        sa.Column("heard", sa.Double),
        sa.Column("contested_by", sa.String(255)),
        sa.Column("contested_at", sa.Double),
        **_ENGINE,
    )
    op.create_table(
        "roots",
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
    clock = op.create_table(
        "clock",
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("ticked_at", sa.Double, nullable=False),
        mysql_engine="InnoDB",
    )
    op.bulk_insert(clock, [{"seconds": 0.0, "ticked_at": 0.0}])
