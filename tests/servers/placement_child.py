"""``driverkit.placement.child`` for tests, with a log of all requests.

Placement's own schemas are checked once, not at each request: they are constants, and checking one
takes longer than all that Placement does with it.
"""

import os
import sys
from pathlib import Path
from typing import Any

import placement.microversion
from jsonschema import validators
from placement.wsgi import init_application

from driverkit.placement.child import serve
from tests.servers.request_log import logged


def check_schemas_once(validator: Any) -> None:
    """Let ``validator`` check each schema when it first meets it."""
    check = validator.check_schema
    checked: dict[int, Any] = {}  # by identity; held, so that no other gets its identity

    def check_once(schema: Any, *args: Any, **kwargs: Any) -> None:
        if id(schema) not in checked:
            check(schema, *args, **kwargs)
            checked[id(schema)] = schema

    validator.check_schema = check_once


def cut_versions(versions: list[str], newest: str) -> None:
    """Forget, in place, the versions after ``newest``."""
    del versions[versions.index(newest) + 1 :]


if __name__ == "__main__":
    check_schemas_once(validators.validator_for({}))
    for newest in sys.argv[2:]:  # after the handlers, in placement.wsgi, have read them
        cut_versions(placement.microversion.VERSIONS, newest)
    directory = Path(os.environ["OS_PLACEMENT_CONFIG_DIR"])
    serve(int(sys.argv[1]), logged(init_application(), directory))
