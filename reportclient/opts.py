"""The options of ``[placement]``: those of keystoneauth."""

from typing import Any

from reportclient.http import conf_options
from reportclient.replies import GROUP


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return ``[(group, options)]`` for oslo.config's sample generator."""
    return [(GROUP, conf_options())]
