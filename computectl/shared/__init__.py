"""Parts that the commands share."""
