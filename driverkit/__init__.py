"""For authors of drivers: the contract, the templates, the scripted driver, ``--dev``."""

BY_PYTEST = 100
"""Added to pytest's exit code by ``driverkit.installed``: a driver may exit with any other."""
