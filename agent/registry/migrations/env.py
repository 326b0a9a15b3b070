"""What Alembic runs for each upgrade: on the connection that was handed over."""

from alembic import context

from agent.registry.tables import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
