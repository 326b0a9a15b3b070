"""Who comes in: Keystone's users.  What they may do then is for the policy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from keystonemiddleware import audit, auth_token
from keystonemiddleware import opts as keystone_opts

from agent.registry.opts import RegistryConfigError
from agent.registry.rest.application import Application, StartResponse
from agent.registry.rest.request import Environ, identified

KEYSTONE_WITHIN = 10
"""Seconds that a question to Keystone may take, where [keystone_authtoken] does not say."""
GROUP = "keystone_authtoken"


def with_keystone(application: Application, conf: Any) -> Application:
    """Behind Keystone; ``conf`` has the group [keystone_authtoken]."""
    for group, options in keystone_opts.list_auth_token_opts():
        conf.register_opts(options, group)
    # By default it waits for ever, and a thread of ours with it.
    conf.set_default("http_connect_timeout", KEYSTONE_WITHIN, GROUP)
    allowed: Application = auth_token.AuthProtocol(
        application, {"oslo_config_config": conf, "log_name": __name__}
    )
    return allowed


def with_audit(application: Application, conf: Any) -> Application:
    """A CADF event for each request and its answer, by keystonemiddleware.

    :raises RegistryConfigError: the map can't be used.
    """
    wanted = conf.audit
    try:
        audited: Application = audit.AuditMiddleware(
            application,
            oslo_config_config=conf,
            audit_map_file=wanted.audit_map_file,
            ignore_req_list=wanted.ignore_req_list,
            service_name="compute-registry",
            log_name=f"{__name__}.audit",
        )
    except Exception as err:
        raise RegistryConfigError(f"[audit] audit_map_file {wanted.audit_map_file}: {err}") from err
    return audited


@dataclass(frozen=True, slots=True)
class Identified:
    """Gives each request its id, before anybody else sees it, and tells it in the answer."""

    application: Application

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        ours = identified(environ)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            told = [("X-OpenStack-Request-ID", ours), ("X-Compute-Request-ID", ours)]
            return start_response(status, [*headers, *told], *more)

        return self.application(environ, start)
