"""The options of ``[ironic]``: keystoneauth's own by their usual names, and which nodes."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "ironic"
SECONDS = 60
OPTIONS = [
    cfg.StrOpt(
        "conductor_group",
        help="Report only nodes of this conductor group. Each node has to be reported by one "
        "agent: set this, or shard, where there are several.",
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
