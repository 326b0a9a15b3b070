"""A libvirt module that records what it is asked, and can refuse, hang and lose connections.

An answer may be a function of what it is asked with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")


class FakeLibvirtError(Exception):
    def __init__(self, message: str, code: int = 1, errno: int = 0) -> None:
        super().__init__(message)
        self._code, self._errno = code, errno

    def get_error_message(self) -> str:
        return str(self)

    def get_error_code(self) -> int:
        return self._code

    def get_int1(self) -> int:
        return self._errno


class FakeLibvirt:
    """Stands where ``import libvirt`` would; ``calls`` lists (thread name, call)."""

    libvirtError = FakeLibvirtError
    VIR_ERR_NO_SUPPORT = 3
    VIR_ERR_SYSTEM_ERROR = 38
    VIR_ERR_AUTH_FAILED = 45
    VIR_ERR_AUTH_CANCELLED = 79
    VIR_ERR_AUTH_UNAVAILABLE = 80
    VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES = 1
    VIR_CONNECT_LIST_STORAGE_POOLS_INACTIVE = 1
    VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE = 2
    VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE = 0
    VIR_NODE_DEVICE_EVENT_ID_UPDATE = 1
    VIR_STORAGE_POOL_EVENT_ID_LIFECYCLE = 0
    VIR_STORAGE_POOL_EVENT_ID_REFRESH = 1
    VIR_DOMAIN_EVENT_ID_LIFECYCLE = 0
    VIR_DOMAIN_EVENT_ID_DEVICE_ADDED = 19
    VIR_ERR_NO_NODE_DEVICE = 53
    VIR_ERR_NO_STORAGE_POOL = 49
    VIR_ERR_NO_DOMAIN = 42
    VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV = 2
    VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET = 16
    VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES = 8192
    VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV = 16384
    VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE = 1 << 31
    VIR_ERR_INVALID_ARG = 8

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.down: FakeLibvirtError | None = None
        self.read_only_down: FakeLibvirtError | None = None
        self.hung = threading.Event()
        self.released = threading.Event()
        self.released.set()
        self.refused: dict[str, FakeLibvirtError] = {}
        self.connections: list[FakeConnection] = []
        self.answers: dict[str, Any] = {
            "getHostname": "host1",
            "getCapabilities": (DATA / "capabilities-x86_64.xml").read_text(),
            "getCPUMap": (2, [True, True], 2),
            "getInfo": ["x86_64", 1, 2, 2100, 1, 1, 2, 1],
            "getLibVersion": 9_000_000,
            "getVersion": 7_002_000,
            "getMemoryStats": {"total": 8 * 1024 * 1024, "free": 1},
            "baselineCPU": (DATA / "expanded-x86_64.xml").read_text(),
            "getCPUModelNames": ["Haswell-noTSX", "EPYC"],
            "getDomainCapabilities": "<domainCapabilities/>",
            "listAllDomains": [],
            "listAllStoragePools": [],
            "listAllDevices": [],
        }

    def open(self, uri: str) -> FakeConnection:
        return self.connect("open", self.down)

    def openReadOnly(self, uri: str) -> FakeConnection:
        return self.connect("openReadOnly", self.read_only_down or self.down)

    def hang(self) -> None:
        """From now on nothing is answered."""
        self.hung.clear()
        self.released.clear()

    def release(self) -> None:
        """Everything that hangs is answered after all."""
        self.released.set()

    def lose_connections(self) -> None:
        for connection in self.connections:
            connection.alive = False

    def record(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.current_thread())
        if not self.released.is_set():
            self.hung.set()
            self.released.wait(600)

    def connect(self, call: str, problem: FakeLibvirtError | None) -> FakeConnection:
        self.record(call)
        if problem is not None:
            raise problem
        self.connections.append(FakeConnection(self))
        return self.connections[-1]


class FakeDomain:
    """Or a pool; ``document`` ``None``: it is gone by the time that it is read.

    What is not its document is raised, as libvirt's own library does with what is not UTF-8.
    """

    def __init__(self, document: str | Exception | None, name: str = "") -> None:
        self.document = document
        self._name = name or f"thing-{id(self)}"

    def name(self) -> str:
        return self._name

    def XMLDesc(self, flags: int) -> str:
        if self.document is None:
            raise FakeLibvirtError("Domain not found", 42)
        if isinstance(self.document, Exception):
            raise self.document
        return self.document


class FakeDevice:
    """``problem``: what libvirt says instead of its document."""

    def __init__(self, document: str, problem: Exception | str | None = None) -> None:
        self._document = document
        self.problem = problem

    def name(self) -> str:
        return self._document.partition("<name>")[2].partition("</name>")[0]

    def XMLDesc(self, flags: int) -> str:
        if isinstance(self.problem, Exception):
            raise self.problem
        return self._document if self.problem is None else self.problem


class FakeConnection:
    def __init__(self, binding: FakeLibvirt) -> None:
        self._binding = binding
        self.alive = True
        self.closed_by: threading.Thread | None = None
        self.on_close: Callable[..., None] | None = None
        self.subscribed: dict[int, tuple[str, int, Callable[..., None]]] = {}

    def isAlive(self) -> int:
        return int(self.alive)

    def close(self) -> None:
        self.closed_by = threading.current_thread()
        self.alive = False

    def registerCloseCallback(self, callback: Callable[..., None], opaque: object) -> None:
        self.on_close = callback

    def unregisterCloseCallback(self) -> None:
        self.on_close = None

    def nodeDeviceEventRegisterAny(self, _of: None, event: int, told: Any, _opaque: Any) -> int:
        return self._subscribe("nodeDevice", event, told)

    def storagePoolEventRegisterAny(self, _of: None, event: int, told: Any, _opaque: Any) -> int:
        return self._subscribe("storagePool", event, told)

    def domainEventRegisterAny(self, _of: None, event: int, told: Any, _opaque: Any) -> int:
        return self._subscribe("domain", event, told)

    def nodeDeviceEventDeregisterAny(self, number: int) -> None:
        del self.subscribed[number]

    storagePoolEventDeregisterAny = domainEventDeregisterAny = nodeDeviceEventDeregisterAny

    def happen(self, kind: str, event: int, *rest: Any) -> None:
        """As libvirt's event loop tells it: the subject, and what else the event has."""
        for subscribed, its_event, told in list(self.subscribed.values()):
            if (subscribed, its_event) == (kind, event):
                told(self, object(), *rest, None)

    def _subscribe(self, kind: str, event: int, told: Any) -> int:
        if kind in self._binding.refused:
            raise self._binding.refused[kind]
        number = len(self.subscribed)
        self.subscribed[number] = (kind, event, told)
        return number

    def setKeepAlive(self, interval: int, count: int) -> int:
        self._binding.record(f"setKeepAlive({interval}, {count})")
        return 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._binding.answers:
            raise AttributeError(name)

        def call(*_args: Any) -> Any:
            self._binding.record(name)
            if name in self._binding.refused:
                raise self._binding.refused[name]
            if not self.alive:
                raise FakeLibvirtError("client socket is closed")
            answer = self._binding.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer(*_args) if callable(answer) else answer

        return call
