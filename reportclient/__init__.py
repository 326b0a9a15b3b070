"""A client for Placement: provider trees, the plan of changes, and the only writer.

    from reportclient import Client, errors

Each name is loaded when it is first used: a driver, which needs the model only, does not load the
client.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reportclient.client import Client as Client
    from reportclient.client import Result as Result
    from reportclient.model import Inventory as Inventory
    from reportclient.model import Provider as Provider
    from reportclient.model import ProviderData as ProviderData
    from reportclient.one_provider import OneProvider as OneProvider
    from reportclient.plan import Problem as Problem
    from reportclient.provider_tree import ProviderTree as ProviderTree
    from reportclient.root import Store as Store
    from reportclient.saved_view import FileStore as FileStore
    from reportclient.schedule import Times as Times
    from reportclient.view import View as View

    __version__: str

_MODULES = {
    **dict.fromkeys(("Client", "Result"), "client"),
    **dict.fromkeys(("Inventory", "Provider", "ProviderData"), "model"),
    "OneProvider": "one_provider",
    "Problem": "plan",
    "ProviderTree": "provider_tree",
    "Store": "root",
    "FileStore": "saved_view",
    "Times": "schedule",
    "View": "view",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version(__name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
