"""Ironic's API, by openstacksdk."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from openstack import connection, exceptions
from openstack.config import cloud_region

from drivers.api import DriverNotReady
from ironic_nodes.node import FIELDS, Node
from ironic_nodes.opts import GROUP, SECONDS


class IronicAPI:
    """Reads nodes; connects at the first request.  A request takes ``SECONDS`` at most."""

    def __init__(self, conf: Any) -> None:
        self._conf = conf
        self._connection: connection.Connection | None = None

    def nodes(self) -> list[Node]:
        """Return all nodes of the configured group and shard, read page by page.

        :raises DriverNotReady: Ironic does not answer.
        """
        settings = self._conf[GROUP]
        wanted = {"conductor_group": settings.conductor_group, "shard": settings.shard}
        query = {name: value for name, value in wanted.items() if value is not None}
        try:
            baremetal = self._connected().baremetal
            return [_node(listed) for listed in baremetal.nodes(fields=list(FIELDS), **query)]
        except (exceptions.SDKException, keystone_errors.ClientException) as err:
            raise DriverNotReady(f"Ironic does not list its nodes: {err}") from err

    def node(self, uuid: str) -> Node:
        """Return a node.  :raises DriverNotReady: Ironic does not answer, or has no such node."""
        try:
            return _node(self._connected().baremetal.get_node(uuid, fields=list(FIELDS)))
        except (exceptions.SDKException, keystone_errors.ClientException) as err:
            raise DriverNotReady(f"Ironic does not show the node {uuid}: {err}") from err

    def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> connection.Connection:
        if self._connection is None:
            auth = loading.load_auth_from_conf_options(self._conf, GROUP)
            session = loading.load_session_from_conf_options(self._conf, GROUP, auth=auth)
            session.timeout = session.timeout or SECONDS
            region = cloud_region.from_conf(
                self._conf, session=session, service_types={"baremetal"}
            )
            self._connection = connection.Connection(config=region)
        return self._connection


def _node(found: Any) -> Node:
    return Node(
        uuid=found.id,
        resource_class=found.resource_class,
        provision_state=found.provision_state,
        power_state=found.power_state,
        maintenance=bool(found.is_maintenance),
        instance_uuid=found.instance_id,
        traits=frozenset(found.traits or ()),
    )
