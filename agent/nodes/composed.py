"""Create the drivers and the nodes of this host, for the agent and for read-only commands."""

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
"""Number of inventories from which one bulk write costs Placement less than a PUT for each."""


def create_drivers(
    settings: config.Settings,
    conf: Any,
    store: DriverStore,
    wake: Callable[[], None] = lambda: None,
) -> Sequence[LoadedDriver]:
    """Return the configured drivers; ``init_host`` is not called yet.

    ``store`` has the drivers' saved data; a driver calls ``wake`` to request a period.

    :raises drivers.errors.DriverError: a driver can't be loaded.
    :raises agent.config.ConfigError: an option looks mistyped (drivers register theirs on import).
    """
    context = DriverContext(settings.host, settings.state_path, conf, wake, store)
    drivers = loader.load_drivers(settings.drivers, context)
    config.refuse_typos(conf)
    return drivers


def create_nodes(
    settings: config.Settings,
    drivers: Sequence[LoadedDriver],
    api: API,
    compute_id: str,
    *,
    writing: bool = True,
) -> Nodes:
    """Return the nodes of the drivers; provider files are not read yet."""
    path = settings.state_path
    return Nodes(
        compute_id,
        drivers,
        api,
        settings.rules,
        BulkWrites(settings.bulk_chunk, BULK_PAYS_FROM),
        path,
        table=NodeTable.in_directory(path, writing=writing),
        provider_files=ProviderFiles.from_location(settings.provider_config, path, writing=writing),
        writing=writing,
    )
