"""The modules of deploy/ansible, loaded without Ansible, which is not installed here."""

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

LIBRARY = Path(__file__).resolve().parents[1] / "deploy/ansible/roles/compute_common/library"


def load_module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module; of Ansible it needs only a name."""
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = object  # type: ignore[attr-defined]
    for package in ("ansible", "ansible.module_utils"):
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    monkeypatch.setitem(sys.modules, basic.__name__, basic)
    spec = importlib.util.spec_from_file_location(name, LIBRARY / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
