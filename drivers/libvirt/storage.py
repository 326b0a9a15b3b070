"""Storage pools over a connection: for the worker thread that holds it (see session.py)."""

from __future__ import annotations

import contextlib
from typing import Any


def active_pools(connection: Any, binding: Any) -> tuple[str, ...]:
    """The documents of all active pools; pools that vanish meanwhile are not there."""
    documents = []
    for pool in connection.listAllStoragePools(binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        with contextlib.suppress(binding.libvirtError):
            documents.append(str(pool.XMLDesc(0)))
    return tuple(documents)
