"""The nodes of this host with all that they need, for the agent and for read-only commands."""

from collections.abc import Callable, Sequence
from typing import Any

from agent import config
from agent.nodes.identity import NodeTable
from agent.nodes.nodes import Nodes
from agent.provider_config.files import ProviderFiles
from agent.state.driver_store import DriverStore
from drivers import loader
from drivers.api import DriverContext
from drivers.loader import LoadedDriver
from reportclient.http import API
from reportclient.root import BulkWrites

BULK_PAYS_FROM = 8
"""Inventories; with fewer the reshaper costs Placement more than one call for each."""


def drivers_of(
    settings: config.Settings,
    conf: Any,
    store: DriverStore,
    wake: Callable[[], None] = lambda: None,
) -> Sequence[LoadedDriver]:
    """Return the configured drivers, not opened yet; ``store`` has what they keep.

    :raises drivers.errors.DriverError: one can't be loaded.
    :raises agent.config.ConfigError: an option looks mistyped, which their own are known for.
    """
    context = DriverContext(settings.host, settings.state_path, conf, wake, store)
    drivers = loader.load(settings.drivers, context)
    config.refuse_typos(conf)
    return drivers


def nodes_of(
    settings: config.Settings,
    drivers: Sequence[LoadedDriver],
    api: API,
    own_uuid: str,
    *,
    writing: bool = True,
) -> Nodes:
    """The nodes that these drivers name; provider files are not read yet."""
    path = settings.state_path
    return Nodes(
        own_uuid,
        drivers,
        api,
        settings.rules,
        BulkWrites(settings.bulk_chunk, BULK_PAYS_FROM),
        path,
        table=NodeTable.of(path, writing=writing),
        additions=ProviderFiles.of(settings.provider_config, path, writing=writing),
        writing=writing,
    )
