"""Migrations, a file for each step; a released step is never edited."""
