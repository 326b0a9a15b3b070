"""Alembic's entry for an upgrade, on the connection that ``migrate`` passes."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
