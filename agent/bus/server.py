"""The RPC server: it refuses wrong calls, and marks those that waited while it did not listen."""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from agent.bus import messaging
from agent.bus.caller import Caller
from agent.bus.incoming import FAILED, LARGEST, OK, REFUSED
from agent.bus.listener import REFUSED_LOG, Arrivals, describe
from agent.bus.signing import Permit
from agent.errors import MessagingError, NotPermitted, TransportUnavailable
from agent.loop import in_thread
from agent.retrying import until_it_works
from agent.threads import keep_running, started
from reportclient.errors import without_frames
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.registry")

LONGEST_PAUSE = 60.0
"""Seconds between two attempts to start a server that the broker refuses, at most."""

AWAY = "waiting for the message broker"
"""The problem of a server that is not connected."""
CANT_SERVE = "Can't serve RPC calls on topic %s, retrying: %s"
LATE_AFTER = 5.0
"""Seconds after which a log line says that the broker is away: oslo.messaging waits for ever."""
UNKNOWN = "unknown"
"""Stands for each unknown method, so that senders can't create metric labels."""
CallListener = Callable[[str, str, float], object]
"""Called after each answer with the method, the outcome, and the seconds it took."""


class RpcServer(messaging.server.RPCServer):  # type: ignore[misc]  # it has no types
    """Answers calls with the methods of ``endpoints``, once the broker can be reached.

    An endpoint has a ``target``, with namespace and version.  Each call is checked before the
    broker sends many more.  oslo.messaging's own pool of threads would be dead for ever once no
    thread could be started for a while, and its own ``start`` works once.
    """

    largest: int = LARGEST
    """Bytes of a call; larger ones are dropped before they are parsed."""
    permit: Permit | None = None
    """Refuses calls that their senders may not make, and signs answers."""
    at_once: frozenset[str] = frozenset()
    """Methods that wait for nothing: they run in the thread that receives the calls, and their
    answers are not sent."""
    _arrivals: Arrivals | None = None
    _problem: str = AWAY

    def __init__(self, transport: Any, target: Any, endpoints: Sequence[Any]) -> None:
        super().__init__(transport, target, _Dispatcher(self, endpoints))
        self.target = target
        self.outcome_of: Callable[[Any], str] = lambda _: OK
        """Returns the outcome of a call from its answer."""
        self.on_answered: CallListener = lambda *_: None
        self.on_serving: Callable[[], object] = lambda: None
        """Called when ``serving`` is set."""
        self.serving = threading.Event()
        """Set when calls can be answered; it stays set when the broker is lost."""
        self._stopping = threading.Event()
        size = self.conf.executor_thread_pool_size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"rpc {target.topic}")
        self._slots = threading.Semaphore(2 * size)
        """Calls that run or wait for a thread; meanwhile more of them wait at the broker."""

    def start(self) -> None:
        """Start in a thread, which waits for the broker.

        :raises agent.threads.NoThread: no thread can be started.
        """
        # An operator may correct credentials at the broker.
        listen = partial(until_it_works, self._listen, self._stopping, self._note, LONGEST_PAUSE)
        keep_running(listen, f"start RPC {self.target.topic}", self._stopping)

    def _note(self, error: str) -> None:
        self._problem = error
        LOG.warning(CANT_SERVE, self.target.topic, error)

    def _listen(self) -> None:
        listener, text = None, f"{AWAY}; check that it is up, and transport_url"
        late = threading.Timer(LATE_AFTER, LOG.warning, (CANT_SERVE, self.target.topic, text))
        late.daemon = True
        try:
            started(late)
            listener = self._create_listener()
            queue = f"{self.target.topic}.{self.target.server}"
            arrivals = Arrivals(listener, queue, self.largest)
            listener.start(self._on_incoming)
        except Exception as err:
            if listener is not None:
                listener.cleanup()
            raise TransportUnavailable(describe(err)) from err
        finally:
            late.cancel()
        self.listener, self._arrivals = listener, arrivals
        self.serving.set()
        LOG.info("Serving RPC calls on topic %s", self.target.topic)
        self.on_serving()

    def problem(self) -> str:
        """Return why no calls arrive; empty if they do, as far as this side knows."""
        if self._arrivals is None:
            return self._problem
        return self._arrivals.problem or ("" if self._arrivals.is_connected() else AWAY)

    def stop(self, within: float = 5.0) -> bool:
        """Finish running calls; return whether they ended within ``within`` seconds."""
        self._stopping.set()
        if self._arrivals is None:
            return True
        stopped = in_thread(self._finish, f"stop RPC {self.target.topic}")
        return stopped in wait([stopped], within).done

    def _finish(self) -> None:
        """Take no more calls, and end those that run."""
        self.listener.stop()
        self._threads.shutdown()
        self.listener.cleanup()

    def _on_incoming(self, incoming: Any) -> None:
        """Check the call, and have it run; an exception here would stop the listener."""
        (call,) = incoming
        self.dispatcher.check(call)
        name = call.message["method"]
        try:
            if name in self.at_once:
                self.dispatcher.dispatch(call)
            else:
                self._slots.acquire()
                self._threads.submit(self._run, incoming)
        except messaging.dispatcher.ExpectedException:
            LOG.debug("Nobody awaits an answer to %s", name)
        except Exception:  # noqa: BLE001  such as no thread for it: the next one runs it
            REFUSED_LOG.exception("A call of %s was not answered", name)

    def _run(self, incoming: Any) -> None:
        try:
            self._process_incoming(incoming)
        finally:
            self._slots.release()


class _Dispatcher(messaging.dispatcher.RPCDispatcher):  # type: ignore[misc]  # it has no types
    """oslo.messaging's dispatcher, which answers a wrong call with an error, no traceback."""

    def __init__(self, rpc: RpcServer, endpoints: Sequence[Any]) -> None:
        super().__init__(list(endpoints), None)
        self.rpc = rpc

    def check(self, incoming: Any) -> None:
        """Find the method, and refuse a wrong call before the next one is read.  Never raises.

        ``incoming.checked`` has both then.  A call that was refused is kept without its arguments,
        which can be large.
        """
        message, method, refusal = incoming.message, None, None
        name, arguments = message.get("method"), message.get("args", {})
        try:
            method = self._method(message)
            try:
                _SIGNATURE_OF(method).bind({}, **arguments)
            except TypeError as err:
                raise _WrongArguments(f"{name}: {err}") from err
            if self.rpc.permit is not None:
                self.rpc.permit(name, arguments, incoming.ctxt)
        except Exception as err:  # noqa: BLE001  the listener goes on
            refusal, incoming.message = without_frames(err), {"method": name}
            if not isinstance(err, _WRONG_CALLS):
                REFUSED_LOG.exception("A call of %r could not be checked", name)
                refusal = NotPermitted("the call could not be checked")
        incoming.checked = method, refusal

    def dispatch(self, incoming: Any) -> Any:
        """Return the answer.  :raises dispatcher.ExpectedException: with the caller's error."""
        began, outcome, message = time.monotonic(), FAILED, incoming.message
        name, (method, refusal) = message["method"], incoming.checked
        try:
            if refusal is not None:
                raise refusal
            if incoming.client_timeout:  # the caller expects signs of life while it waits
                answer = super().dispatch(incoming)
            else:
                answer = method(incoming.ctxt, **message.get("args", {}))
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
        name, version = message["method"], message.get("version") or "1.0"
        compatible = [
            endpoint
            for endpoint in self.endpoints
            if self._is_namespace(endpoint.target, message.get("namespace"))
            and self._is_compatible(endpoint.target, version)
        ]
        for endpoint in compatible:
            method = getattr(endpoint, name, None)
            if inspect.ismethod(method) and not name.startswith("_"):
                return method
        if compatible:
            raise messaging.dispatcher.NoSuchMethod(name)
        raise messaging.dispatcher.UnsupportedVersion(version, method=name)


_SIGNATURE_OF = lru_cache(64)(inspect.signature)


class _WrongArguments(MessagingError, TypeError):
    """A method was called with arguments that it does not have."""


RPCDispatcherError = messaging.dispatcher.RPCDispatcherError
_WRONG_CALLS = (RPCDispatcherError, ValueError, _WrongArguments, NotPermitted)
"""Errors that the caller caused."""
