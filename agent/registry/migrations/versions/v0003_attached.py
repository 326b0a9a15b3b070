"""Whether a host's agent reports beside nova-compute.  Older registries run on this as well."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """NULL until the next heartbeat: not attached."""
    op.add_column("services", sa.Column("attached", sa.Boolean))
