"""The one room for what is kept under ``state_path``: how it is written, read and distrusted."""
