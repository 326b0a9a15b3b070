"""Where ``DriverContract`` was before; new tests import it from ``driverkit.testing``."""

from driverkit.testing import RULES, DriverContract, Rule

__all__ = ["RULES", "DriverContract", "Rule"]
