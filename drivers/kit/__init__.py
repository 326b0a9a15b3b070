"""The rules that drivers have to keep, and their judges; drivers.testing lets pytest run them."""
