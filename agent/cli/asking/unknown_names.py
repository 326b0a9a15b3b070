"""Traits and resource classes that Placement has never heard of, and what may be meant."""

from __future__ import annotations

import difflib

from agent.cli.shared.errors import Trouble
from reportclient.errors import UnknownNames
from reportclient.http import API
from reportclient.reader import part_of

ALIKE = 0.8
"""How much of a name has to be the same for it to be meant."""


def unknown(err: UnknownNames, api: API) -> Trouble:
    """For a query that named them; two calls."""
    known = list(part_of("/traits", "traits", api))
    known += [item["name"] for item in part_of("/resource_classes", "resource_classes", api)]
    names = sorted(err.names)
    near = [hit for name in names for hit in difflib.get_close_matches(name, known, 1, ALIKE)]
    hint = f"is {', '.join(near)} meant?" if near else "has the agent that reports it run yet?"
    return Trouble(f"Placement does not know {', '.join(names)}, so no provider has it", hint)
