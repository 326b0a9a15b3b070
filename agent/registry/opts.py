"""The registry's options and settings, for compute-registry, for agents, and for computectl."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from oslo_config import cfg

from agent.metrics import opts as metrics_opts

GROUP = "registry"
FILE_NAME = "services.sqlite"

REGISTRY: list[cfg.Opt] = [
    cfg.StrOpt(
        "access",
        default="direct",
        choices=[
            ("direct", "open the SQLite file of 'connection': one host, nothing to install"),
            ("rpc", "call compute-registry over transport_url: for fleets"),
        ],
        help="How compute-agent and computectl reach the service records. compute-registry "
        "itself always opens the database.",
    ),
    cfg.StrOpt(
        "connection",
        secret=True,
        sample_default=f"sqlite:////var/lib/compute-agent/{FILE_NAME}",
        help="URL of the database, by default an SQLite file in state_path, for one host. "
        "For compute-registry also the SQLAlchemy URL of a fleet's database: "
        "mysql+pymysql://user:password@host/name or "
        "postgresql+psycopg2://user:password@host/name.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        mutable=True,
        min=2,
        help="Seconds without a heartbeat after which a service counts as down. The same on "
        "all hosts.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        mutable=True,
        min=1,
        help="Seconds between two heartbeats of an agent; well below service_down_time.",
    ),
    cfg.StrOpt(
        "binary",
        default="nova-compute",
        help="What services are called in lists: tools that know Nova look for its name.",
    ),
    cfg.StrOpt(
        "master_key",
        default="",
        secret=True,
        help="For compute-registry and for operators' computectl, never on a hypervisor: calls "
        "over the bus have to be signed, and these are. Any long random text, such as of "
        "openssl rand -hex 32. compute-registry needs it, or unsigned_calls.",
    ),
    cfg.BoolOpt(
        "unsigned_calls",
        default=False,
        help="For compute-registry without a master_key: answer calls over the bus that nobody "
        "has signed. Then whoever has a credential of the broker, such as that of one "
        "hypervisor, can disable, force down and delete every host.",
    ),
    cfg.StrOpt(
        "host_key",
        default="",
        secret=True,
        help="For an agent: the key of its own host, which compute-registry --host-key-of HOST "
        "prints. Its calls are signed with it, and calls to it have to be signed.",
    ),
    cfg.StrOpt(
        "rest_bind",
        default="127.0.0.1",
        help="Address on which compute-registry serves os-services of the compute API.",
    ),
    cfg.PortOpt(
        "rest_port",
        default=0,
        help="Port for that, 0 for none. Nova's is 8774.",
    ),
    cfg.BoolOpt(
        "page",
        default=True,
        help="Serve a page of the fleet there as well, at /fleet, for people with a browser. It "
        "changes nothing. With [placement], it shows the provider trees of hosts.",
    ),
    cfg.StrOpt(
        "trusted_proxy",
        help="Address of the TLS proxy before compute-registry: the log then has the "
        "addresses of its clients, by its X-Forwarded-For. Left out: nobody is believed.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "a token of Keystone; [oslo_policy] policy_file says who may do what"),
            ("noauth", "everybody who reaches the port; for tests and the loopback"),
        ],
        help="Who may use the REST interface. With keystone, [keystone_authtoken] says how "
        "tokens are checked.",
    ),
]
AUDIT_GROUP = "audit"
AUDIT: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Write a CADF event for each REST request and its answer, by keystonemiddleware; "
        "[audit_middleware_notifications] says where to. By default the log has who "
        "switched what, and no events.",
    ),
    cfg.StrOpt(
        "audit_map_file",
        default="/etc/compute-registry/api_audit_map.conf",
        help="What the paths of the API are called in these events.",
    ),
    cfg.StrOpt(
        "ignore_req_list",
        default="",
        help="HTTP methods that are left out, such as GET,HEAD.",
    ),
]


class RegistryConfigError(Exception):
    """The configuration can't be used; the text says which option."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The group [registry]; times in seconds, ``rest_port`` is ``None`` for no REST."""

    access: str
    connection: str
    down_after: float
    report_interval: float
    binary: str
    rest_bind: str
    rest_port: int | None
    auth_strategy: str
    trusted_proxy: str | None = None
    page: bool = True
    master_key: str = ""
    host_key: str = ""
    unsigned_calls: bool = False


def settings(conf: cfg.ConfigOpts) -> RegistrySettings:
    """Read every option once.

    :raises RegistryConfigError: two of them do not go together.
    """
    group = conf[GROUP]
    if group.report_interval >= group.service_down_time:
        raise RegistryConfigError(
            f"[registry] report_interval ({group.report_interval}) has to be below "
            f"service_down_time ({group.service_down_time}), or no service stays up"
        )
    if not conf.state_path:
        raise RegistryConfigError("state_path is empty: name a directory, or leave the option out")
    default = f"sqlite:///{Path(conf.state_path).absolute() / FILE_NAME}"
    others: dict[str, Any] = {
        "connection": group.connection or default,
        "down_after": float(group.service_down_time),
        "report_interval": float(group.report_interval),
        "rest_port": group.rest_port or None,
    }
    same = {one.name for one in fields(RegistrySettings)} - others.keys()
    return RegistrySettings(**others, **{name: group[name] for name in same})


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For the sample configuration: ``[(group, options)]``."""
    return [
        (GROUP, REGISTRY),
        (AUDIT_GROUP, AUDIT),
        (metrics_opts.GROUP, metrics_opts.MONITORING),
    ]
