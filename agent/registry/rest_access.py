"""Who may use the REST interface: Keystone's users with the role admin or service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from keystonemiddleware import auth_token

from agent.registry.rest import Application, Environ
from agent.registry.rest_errors import Refused, status_line

ROLES = frozenset({"admin", "service"})


def with_keystone(application: Application, conf: Any) -> Application:
    """Behind Keystone; ``conf`` has the group [keystone_authtoken]."""
    allowed: Application = auth_token.AuthProtocol(
        OnlyRoles(application), {"oslo_config_config": conf, "log_name": __name__}
    )
    return allowed


@dataclass(frozen=True, slots=True)
class OnlyRoles:
    """Behind keystonemiddleware, which has checked the token and says its roles."""

    application: Application

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        roles = {each.strip().lower() for each in environ.get("HTTP_X_ROLES", "").split(",")}
        confirmed = environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed"
        if confirmed and roles & ROLES:
            return self.application(environ, start_response)
        refused = Refused(403, f"this takes one of the roles {', '.join(sorted(ROLES))}")
        body = json.dumps(refused.body()).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(status_line(403), headers)
        return [body]
