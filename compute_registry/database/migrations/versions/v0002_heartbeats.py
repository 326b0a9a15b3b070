"""The clock of heartbeats, and what an agent reports about itself."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns, and the table ``clock``, which has one row: see ``FleetDatabase.clock``."""
    op.add_column("services", sa.Column("heard", sa.Double))
    op.add_column("services", sa.Column("agent_version", sa.String(255)))
    op.add_column("services", sa.Column("degraded", sa.String(255)))
    clock = op.create_table(
        "clock",
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("ticked_at", sa.Double, nullable=False),
        mysql_engine="InnoDB",
    )
    op.bulk_insert(clock, [{"seconds": 0.0, "ticked_at": 0.0}])
