"""Alembic's environment for the registry's schema; ``versions`` has the migrations."""
