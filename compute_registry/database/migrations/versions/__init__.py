"""Migrations, a file for each; a released migration is never edited."""
