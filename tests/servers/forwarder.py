"""A port in front of a server of this machine."""

import socket
import threading
from contextlib import suppress

from tests.servers.ports import free_port
from tests.servers.process import Server

HERE = "127.0.0.1"


class Forwarder(Server):
    """What comes to ``port`` goes to ``upstream``."""

    def __init__(self, upstream: int) -> None:
        self.upstream, self.port = upstream, free_port()
        self._clients: list[socket.socket] = []

    def start(self) -> None:
        self._listener = socket.create_server((HERE, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def drop(self) -> None:
        """Whoever is connected has to connect anew."""
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _outside(self, client: socket.socket) -> socket.socket:
        """Its side of the connection."""
        return client

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), self._outside(client) as outside:
            self._clients.append(outside)
            with socket.create_connection((HERE, self.upstream)) as inside:
                threading.Thread(target=_pump, args=(outside, inside), daemon=True).start()
                _pump(inside, outside)


def _pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while some := one.recv(65536):
            other.sendall(some)
    with suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)
