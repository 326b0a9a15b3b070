"""The services, their roots, and the clock of heartbeats.

Before the next migration, write out here the tables as they were: this one creates them as they
are declared.
"""

from alembic import op

from compute_registry.database.tables import CLOCK_ROW, METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables; ``clock`` has one row."""
    METADATA.create_all(op.get_bind())
    op.bulk_insert(CLOCK_ROW, [{"seconds": 0.0, "ticked_at": 0.0}])
