"""The process in which the embedded Placement runs (see ``driverkit.placement.server``).

    python -m driverkit.placement.child PORT

OS_PLACEMENT_CONFIG_DIR is the directory with ``placement.conf``.  Once the server answers, the port
is printed to standard output; the process ends when its standard input is closed.
"""

import os
import sys
import threading
from wsgiref.types import WSGIApplication

import waitress
from placement.wsgi import init_application

# SQLite allows one writer; with more threads some concurrent writes fail with a 500.
THREADS = 1


def serve(port: int, application: WSGIApplication) -> None:
    """Serve until the parent process ends."""
    threading.Thread(target=_exit_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
    server = waitress.create_server(
        application, host="127.0.0.1", port=port, threads=THREADS, ident=None
    )
    print(server.effective_port, flush=True)  # noqa: T201  # the parent waits for it
    server.run()


def _exit_with_parent(pipe: int) -> None:
    # PR_SET_PDEATHSIG would already signal when the parent's *thread* that started this process
    # ends; the pipe is closed when the parent process ends.
    while os.read(pipe, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), init_application())
