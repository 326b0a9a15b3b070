"""The database of a fleet: SQLAlchemy, oslo.db and Alembic."""
