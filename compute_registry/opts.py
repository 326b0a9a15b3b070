"""Options and settings of compute-registry alone; it reads some of :mod:`agent.opts`, too."""

from dataclasses import dataclass

from oslo_config import cfg

from agent.opts import registry_settings

REGISTRY: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection",
        secret=True,
        default="",
        help="The SQLAlchemy URL of the fleet's database, mysql+pymysql://user:password@host/name.",
    ),
    cfg.BoolOpt(
        "unsigned_calls",
        default=False,
        help="Without a master_key: accept unsigned calls. Then anyone with a credential of the "
        "broker can disable, force down and delete every host.",
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
"""Options of [registry]; ``OF_REGISTRY`` in ``agent/config.py`` has their names."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of [registry] that compute-registry reads; ``rest_port`` is 0 without REST."""

    down_after: float
    """Seconds without a heartbeat after which a service counts as down."""
    master_key: tuple[str, ...]
    connection: str
    unsigned_calls: bool
    rest_bind: str
    rest_port: int
    trusted_proxy: str | None
    auth_strategy: str


def server_settings(conf: cfg.ConfigOpts) -> ServerSettings:
    """Return the settings of [registry].  :raises ValueError: options contradict each other."""
    shared = registry_settings(conf)
    own = {option.dest: conf.registry[option.dest] for option in REGISTRY}
    return ServerSettings(shared.down_after, shared.master_key, **own)
