"""The options of ``[placement]``: keystoneauth's own, by their usual names."""

from typing import Any

from reportclient.http import conf_options
from reportclient.replies import GROUP


def list_opts() -> list[tuple[str, list[Any]]]:
    """For the sample configuration: ``[(group, options)]``."""
    return [(GROUP, conf_options())]
