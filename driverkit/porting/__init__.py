"""What a driver written for Nova has to change, read from its source."""
