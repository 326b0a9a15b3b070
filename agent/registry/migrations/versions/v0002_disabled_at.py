"""Since when a service is disabled.  An older compute-registry runs on this as well."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Of what is disabled already nobody knows since when."""
    op.add_column("services", sa.Column("disabled_at", sa.Double))
