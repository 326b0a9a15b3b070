"""Options that Nova's environment has; runs there.

    python -m tests.kit.nova_options

Prints ``{group: [names, also deprecated ones]}`` of all installed packages as JSON.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points


def options() -> dict[str, list[str]]:
    listed: dict[str, set[str]] = {}
    for point in entry_points(group="oslo.config.opts"):
        try:
            groups = point.load()()
        except ImportError:  # of an extra that is not installed
            continue
        for group, opts in groups:
            for opt in opts:
                for old in (opt, *opt.deprecated_opts):
                    where = getattr(old, "group", None) or getattr(group, "name", group)
                    listed.setdefault(where or "DEFAULT", set()).add(old.name or opt.name)
    return {group: sorted(names) for group, names in sorted(listed.items())}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(options()))
