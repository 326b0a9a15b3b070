"""The process in which a test's Keystone runs (see ``tests.servers.keystone``).

    python -m tests.servers.keystone_child CONFIG PORT PASSWORD

Makes the database, the keys and the first administrator if they are not there, says
``ready`` and serves until its standard input ends.
"""

import os
import sys
import threading
from pathlib import Path

import waitress
from keystone.cmd import cli

THREADS = 4


def main(config: str, port: str, password: str) -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    url = f"http://127.0.0.1:{port}/v3"
    if not Path(config).with_name("keystone.sqlite").exists():
        mine = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
        _managed(config, "db_sync")
        _managed(config, "fernet_setup", *mine)
        _managed(config, "credential_setup", *mine)
        urls = [word for face in ("admin", "internal", "public") for word in _face(face, url)]
        region = ["--bootstrap-region-id", "RegionOne"]
        _managed(config, "bootstrap", "--bootstrap-password", password, *urls, *region)
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = config
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = str(Path(config).parent)
    sys.argv = ["keystone"]  # which it reads
    # It starts Keystone where it is imported, which needs all of the above.
    from keystone.wsgi.api import application

    server = waitress.create_server(
        application, host="127.0.0.1", port=int(port), threads=THREADS, ident=None
    )
    print("ready", flush=True)
    server.run()


def _face(name: str, url: str) -> tuple[str, str]:
    return f"--bootstrap-{name}-url", url


def _managed(config: str, *command: str) -> None:
    """``keystone-manage`` in a fork: its imports are paid once, its global state stays there."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.argv = ["keystone-manage", "--config-file", config, *command]
            cli.main(argv=sys.argv)
            code = 0
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else 0 if err.code is None else 1
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"keystone-manage {command[0]} failed")


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
