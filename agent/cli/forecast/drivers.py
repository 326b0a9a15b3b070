"""The configured drivers, opened as the agent opens them, for as long as a command asks them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent import config
from agent.cli.shared.command_session import Session
from agent.nodes.identity import IdentityError
from agent.nodes.node_table import NodeTable
from agent.nodes.nodes import Nodes
from agent.period.tracker import Tracker
from agent.provider_config.additions import Additions
from agent.service import Service
from agent.state.driver_store import DriverStore
from agent.state.kept_root import KeptRoot
from agent.state.roots import RootStore
from agent.told.systemd import Systemd
from drivers import loader
from drivers.api import DriverContext
from drivers.errors import DriverError
from drivers.loaded import words
from reportclient.http import API
from reportclient.root import BulkWrites
from reportclient.view import View


@contextmanager
def asked(session: Session, own_uuid: str, api: API, *, holding: bool = False) -> Iterator[Nodes]:
    """The nodes of this host by its drivers; ``nodes.trackers`` is filled.

    What Placement has is read from Placement; of what the agent has kept only that is
    loaded which Placement can't tell, such as which driver reports what.  None is saved.
    Provider files are read as they are now; ``holding`` leaves what they added as it is.

    :raises drivers.errors.DriverError: a driver can't be loaded, opened or can't say
        which nodes there are.
    :raises agent.config.ConfigError: an option looks mistyped.
    """
    settings = session.settings
    store = DriverStore(settings.state_path, writing=False)
    context = DriverContext(settings.host, settings.state_path, session.conf, store=store)
    drivers = loader.load(settings.drivers, context)
    config.refuse_typos(session.conf)
    table = NodeTable.of(settings.state_path, writing=False)
    bulk = BulkWrites(settings.bulk_chunk)
    additions = Additions.of(settings.provider_config, settings.state_path, writing=False)
    additions.holding = holding
    additions.files.load()
    nodes = Nodes(own_uuid, drivers, api, settings.rules, bulk, table=table, additions=additions)
    service = Service(settings.host, nodes, Systemd(), stop=lambda: False)
    try:
        service.open()
        _name_nodes(nodes)
        for tracker in nodes.trackers.values():
            _remember(tracker, settings.state_path)
        yield nodes
    finally:
        service.close()


def _remember(tracker: Tracker, state_path: Path) -> None:
    """Who asserted what, and what the agent drains."""
    kept = KeptRoot(RootStore.of(state_path, writing=False), tracker.uuid)
    saved = kept.load()
    tracker.ledger = kept.ledger
    tracker.view = View(made=saved.made, drained=saved.drained)


def _name_nodes(nodes: Nodes) -> None:
    try:
        nodes.current()
    except IdentityError:
        raise
    except (Exception, SystemExit) as err:
        raise DriverError(
            f"driver {nodes.drivers[0].name} can't name its nodes: {words(err)}"
        ) from err
