"""The options of ``[ironic]``: those of keystoneauth, and which nodes to report."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "ironic"
SECONDS = 60
OPTIONS = [
    cfg.StrOpt(
        "conductor_group",
        help="Report only nodes of this conductor group. Exactly one agent may report a node: "
        "set this option or shard if there are several agents.",
    ),
    cfg.StrOpt("shard", help="Report only nodes of this shard."),
]
PLUGINS = ("none", "http_basic", "password", "v3applicationcredential")
"""Authentication plugins whose options are registered."""


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, [options])]``, each option once."""
    auth = [option for name in PLUGINS for option in loading.get_auth_plugin_conf_options(name)]
    given = [
        *OPTIONS,
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
        *auth,
    ]
    return [(GROUP, list({option.dest: option for option in given}.values()))]
