"""The RPC server: it refuses wrong calls, and marks those that waited while it did not listen."""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from agent.bus import messaging
from agent.bus.caller import Caller
from agent.bus.errors import (
    FAILED,
    OK,
    REFUSED,
    WAITED,
    MessagingError,
    NotPermitted,
    Permit,
)
from agent.bus.listener import (
    REFUSED_LOG,
    has_waited,
    is_connected,
    mark_waiting_calls,
    refuse_malformed,
    wait_for_messages,
)
from agent.loop import in_thread
from agent.retrying import until_it_works
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")

LONGEST_PAUSE = 60.0
"""Seconds between two attempts to start a server that the broker refuses, at most."""

UNKNOWN = "unknown"
"""Stands for each unknown method, so that senders can't create metric labels."""
CallListener = Callable[[str, str, float], object]
"""Called after each answer with the method, the outcome, and the seconds it took."""


@dataclass(slots=True)
class RpcServer:
    """Answers calls with the methods of ``endpoints``, once the broker can be reached.

    An endpoint has a ``target``, with namespace and version.
    """

    transport: Any
    target: Any
    endpoints: Sequence[Any]
    serving: threading.Event = field(default_factory=threading.Event)
    """Set when calls can be answered; it stays set when the broker is lost."""
    on_serving: Callable[[], object] = lambda: None
    """Called when ``serving`` is set."""
    at_once: frozenset[str] = frozenset()
    """Methods that wait for nothing: they run in the thread that receives the calls, and their
    answers are not sent."""
    permit: Permit | None = None
    """Refuses calls that their senders may not make, and signs answers."""
    on_answered: CallListener = lambda *_: None
    outcome_of: Callable[[Any], str] = lambda _: OK
    """Return the outcome of a call from its answer."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _server: Any = None

    def start(self) -> None:
        """Start in a thread, which waits for the broker."""
        in_thread(self._start, f"start RPC {self.target.topic}")

    def _start(self) -> None:
        """Try until it works: an operator may correct credentials at the broker."""
        topic = self.target.topic
        log = partial(LOG.warning, "Can't serve RPC calls on topic %s, retrying: %s", topic)
        self._server = until_it_works(self._started, self._stopping, log, LONGEST_PAUSE)
        if self._server is not None:
            self.serving.set()
            LOG.info("Serving RPC calls on topic %s", topic)
            self.on_serving()

    def _started(self) -> Any:
        server = messaging.oslo_messaging.get_rpc_server(
            self.transport,
            self.target,
            list(self.endpoints),
            access_policy=messaging.oslo_messaging.DefaultRPCAccessPolicy,
            server_cls=partial(_Server, rpc=self),
        )
        server.start()
        return server

    def is_connected(self) -> bool:
        """Return whether calls arrive: the server has started and is connected to the broker."""
        return self.serving.is_set() and is_connected(self._server.listener)

    def stop(self, within: float = 5.0) -> bool:
        """Finish running calls; return whether they ended within ``within`` seconds."""
        self._stopping.set()
        if self._server is None or not self.serving.is_set():
            return True
        stopped = in_thread(self._stop, f"stop RPC {self.target.topic}")
        return stopped in wait([stopped], within).done

    def _stop(self) -> None:
        self._server.stop()
        self._server.wait()


class _Server(messaging.server.RPCServer):  # type: ignore[misc]  # it has no types
    """oslo.messaging's server, which also marks calls that waited before it listened."""

    def __init__(
        self,
        transport: Any,
        target: Any,
        calls: Any,
        executor: Any = None,
        *,
        rpc: RpcServer,
    ) -> None:
        super().__init__(transport, target, _Dispatcher(calls, rpc), executor)
        self._at_once = rpc.at_once

    def _on_incoming(self, incoming: Any) -> None:
        """Run the call, or have it run; an exception here would stop the listener for a second."""
        name = incoming[0].message["method"]
        try:
            if name in self._at_once:
                self.dispatcher.dispatch(incoming[0])
            else:
                super()._on_incoming(incoming)
        except messaging.dispatcher.ExpectedException:
            LOG.debug("Nobody awaits an answer to %s", name)
        except Exception:
            LOG.exception("A call of %s was not answered", name)

    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        refuse_malformed(listener)
        wait_for_messages(listener)
        mark_waiting_calls(listener, f"{self._target.topic}.{self._target.server}")
        return listener


@dataclass(frozen=True, slots=True)
class _Dispatcher:
    """oslo.messaging's dispatcher, which answers a wrong call with an error, no traceback."""

    calls: Any
    rpc: RpcServer

    def dispatch(self, incoming: Any) -> Any:
        """Return the answer.  :raises dispatcher.ExpectedException: with the caller's error."""
        began, outcome, method = time.monotonic(), FAILED, None
        name, arguments = incoming.message["method"], incoming.message.get("args", {})
        try:
            if has_waited(incoming):
                incoming.ctxt = {**incoming.ctxt, WAITED: True}
            method = self._method(incoming.message)
            try:
                _signature(method).bind({}, **arguments)
            except TypeError as err:
                raise _WrongArguments(f"{name}: {err}") from err
            if self.rpc.permit is not None:
                self.rpc.permit(name, arguments, incoming.ctxt)
            if incoming.client_timeout:  # the caller expects signs of life while it waits
                answer = self.calls.dispatch(incoming)
            else:
                answer = method(incoming.ctxt, **arguments)
            outcome = self.rpc.outcome_of(answer)
            if self.rpc.permit is not None:
                answer = self.rpc.permit.signed(incoming.ctxt, answer)
        except _WRONG_CALLS as err:
            outcome = REFUSED
            caller = replace(Caller.from_context(incoming.ctxt), request_id=None)
            REFUSED_LOG.warning("Refused a call of %r %s: %s", name, caller, error_text(err))
            raise messaging.dispatcher.ExpectedException from err
        finally:
            seconds = time.monotonic() - began
            self.rpc.on_answered(UNKNOWN if method is None else name, outcome, seconds)
        return answer

    def _method(self, message: Mapping[str, Any]) -> Any:
        """Return the method that the message names.

        oslo.messaging would find out later, and send heartbeats for a wrong call for ever.

        :raises RPCDispatcherError: there is none, or of another namespace or version.
        """
        name, version = message["method"], message.get("version", "1.0")
        compatible = [
            endpoint
            for endpoint in self.calls.endpoints
            if self.calls._is_namespace(endpoint.target, message.get("namespace"))  # noqa: SLF001
            and self.calls._is_compatible(endpoint.target, version)  # noqa: SLF001
        ]
        for endpoint in compatible:
            method = getattr(endpoint, name, None)
            if inspect.ismethod(method) and not name.startswith("_"):
                return method
        if compatible:
            raise messaging.dispatcher.NoSuchMethod(name)
        raise messaging.dispatcher.UnsupportedVersion(version, method=name)


@lru_cache(64)
def _signature(method: Any) -> inspect.Signature:
    return inspect.signature(method)


class _WrongArguments(MessagingError, TypeError):
    """A method was called with arguments that it does not have."""


_WRONG_CALLS = (
    messaging.dispatcher.RPCDispatcherError,
    ValueError,
    _WrongArguments,
    NotPermitted,
)
"""Errors that the caller caused."""
