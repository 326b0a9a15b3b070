"""The registry's options and settings, for compute-registry, for agents, and for computectl."""

from dataclasses import dataclass, fields

from oslo_config import cfg

from agent.metrics import opts as metrics_opts

GROUP = "registry"

REGISTRY: list[cfg.Opt] = [
    cfg.StrOpt(
        "access",
        default="direct",
        choices=[
            ("direct", "no registry: service.json in state_path, for a single host"),
            ("rpc", "call compute-registry over transport_url, for fleets"),
        ],
        help="Where compute-agent and computectl find the service records.",
    ),
    cfg.StrOpt(
        "connection",
        secret=True,
        default="",
        help="For compute-registry: the SQLAlchemy URL of the fleet's database, "
        "mysql+pymysql://user:password@host/name.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        mutable=True,
        min=2,
        help="Seconds without a heartbeat after which a service counts as down. Set the same "
        "value on all hosts.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        mutable=True,
        min=1,
        help="Seconds between two heartbeats of an agent. Set it well below service_down_time.",
    ),
    cfg.ListOpt(
        "master_key",
        default=[],
        secret=True,
        mutable=True,
        help="For compute-registry and operators' computectl, never on a hypervisor: the key that "
        "signs calls over the message bus, such as the output of openssl rand -hex 32; unsigned "
        "ones are refused. While it is replaced: the new and the old one, separated by a comma.",
    ),
    cfg.BoolOpt(
        "unsigned_calls",
        default=False,
        help="For compute-registry without a master_key: accept unsigned calls. Then anyone with "
        "a credential of the broker can disable, force down and delete every host.",
    ),
    cfg.StrOpt(
        "host_key",
        default="",
        secret=True,
        mutable=True,
        help="For an agent: the key of its host, written by compute-registry --host-keys. "
        "The agent signs its calls with it and refuses unsigned calls.",
    ),
    cfg.StrOpt(
        "rest_bind",
        default="127.0.0.1",
        help="Address on which compute-registry serves os-services of the compute API over HTTP, "
        "and a read-only page with all hosts for browsers, at /fleet.",
    ),
    cfg.PortOpt(
        "rest_port",
        default=0,
        help="Port of the REST API and the page; 0 disables them. Nova's is 8774.",
    ),
    cfg.StrOpt(
        "trusted_proxy",
        help="Address of the TLS proxy in front of compute-registry. Its X-Forwarded-* headers "
        "give the addresses of its clients. If it is not set, such headers are ignored.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "a token, by [keystone_authtoken] and the rules of [oslo_policy]"),
            ("noauth", "every request is allowed; for tests and the loopback"),
        ],
        help="Authentication over HTTP.",
    ),
]
AUDIT_GROUP = "audit"
AUDIT: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Emit a CADF event for each REST request and its answer, by keystonemiddleware; "
        "[audit_middleware_notifications] sets the destination. Without events, the log still "
        "has each change with its caller.",
    ),
    cfg.StrOpt(
        "audit_map_file",
        default="/etc/compute-registry/api_audit_map.conf",
        help="File that maps the API's paths to the names in these events.",
    ),
    cfg.StrOpt(
        "ignore_req_list",
        default="",
        help="HTTP methods for which no event is emitted, such as GET,HEAD.",
    ),
]


class RegistryConfigError(Exception):
    """The configuration is invalid; the text names the option."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The options of [registry]; times in seconds; ``rest_port`` is 0 without REST."""

    access: str
    connection: str
    service_down_time: float
    report_interval: float
    rest_bind: str
    rest_port: int
    auth_strategy: str
    trusted_proxy: str | None = None
    master_key: tuple[str, ...] = ()
    host_key: str = ""
    unsigned_calls: bool = False

    @property
    def down_after(self) -> float:
        """Seconds without a heartbeat after which a service counts as down."""
        return self.service_down_time


def settings(conf: cfg.ConfigOpts) -> RegistrySettings:
    """Return the options of [registry] as settings.

    :raises RegistryConfigError: a value is invalid, or options contradict each other.
    """
    group = conf[GROUP]
    if group.report_interval >= group.service_down_time:
        raise RegistryConfigError(
            f"[registry] report_interval ({group.report_interval}) has to be below "
            f"service_down_time ({group.service_down_time}), or no service counts as up"
        )
    values = {field.name: group[field.name] for field in fields(RegistrySettings)}
    values["master_key"] = tuple(filter(None, group.master_key))
    return RegistrySettings(**values)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``[(group, [options])]`` for the sample configuration."""
    monitoring = (metrics_opts.GROUP, metrics_opts.MONITORING)
    return [(GROUP, REGISTRY), (AUDIT_GROUP, AUDIT), monitoring]
