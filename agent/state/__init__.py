"""The agent's files under ``state_path``: how they are written, read and checked."""
