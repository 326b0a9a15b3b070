"""The table of services."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

_LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "services",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
        sa.Column("host", sa.String(255), nullable=False, unique=True),
        sa.Column("binary", sa.String(255), nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("disabled_reason", sa.String(255)),
        sa.Column("disabled_at", sa.Double),
        sa.Column("forced_down", sa.Boolean, nullable=False),
        sa.Column("rpc_version", sa.String(32)),
        sa.Column("last_seen", sa.Double),
        sa.Column("roots", _LONG_TEXT, nullable=False),
        sa.Column("address", sa.String(255)),
        sa.Column("contested_by", sa.String(255)),
        sa.Column("contested_at", sa.Double),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("attached", sa.Boolean),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
