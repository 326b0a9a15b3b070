"""Whether this host takes guests: who may say so, where it is kept, how it is written."""
