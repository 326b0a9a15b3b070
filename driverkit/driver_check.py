"""``computectl driver check``: run the contract for drivers on an installed driver."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from computectl.shared.commands import OperatorCommand, argument
from computectl.shared.errors import PROBLEMS, CommandError
from driverkit import BY_PYTEST
from drivers import loader
from drivers.errors import DriverNotFound
from drivers.extras import missing

LIMIT = 600.0
"""Seconds after which the check is ended, if the driver hangs in a way that no deadline ends."""


class CheckDriver(OperatorCommand):
    """Check an installed driver against the rules for drivers.

    pytest runs driverkit.contract.DriverContract in a separate process: the driver is created
    with the options of the agent's configuration and a temporary state path, and reports to a
    Placement in memory, never to the configured one. For a broken rule pytest shows what the
    driver has to do, why, and how to mend it. Exits with 1 if the driver breaks a rule.
    """

    examples = """\
  computectl driver check libvirt
  computectl --config-file mydriver.conf driver check mydriver
"""
    arguments = (argument("driver", metavar="NAME", help="the driver, as in compute_driver"),)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the check; return 1 if the driver breaks a rule.

        :raises DriverNotFound: no driver of this name is installed.
        :raises CommandError: pytest is not installed, or the driver ended the check.
        """
        session, name, drivers = self.session(), parsed_args.driver, loader.installed()
        if name not in drivers:
            raise DriverNotFound(loader.not_found(name, drivers))
        if text := missing("kit", "pytest"):
            what, _, step = text.partition("; ")
            raise CommandError(what, step)
        arguments = [name, session.settings.host]
        arguments += [f"--config-file={each}" for each in session.conf.config_file or ()]
        arguments += [f"--config-dir={each}" for each in session.conf.config_dir or ()]
        self.app.stdout.flush()
        code = _checked(arguments)
        if code is None:
            what, step = f"driver {name} hung for {LIMIT:g} s", "the check was ended"
            raise CommandError(what, step, PROBLEMS)
        if code < BY_PYTEST:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            step = "it must neither call os._exit nor crash the interpreter"
            raise CommandError(f"driver {name} ended the check's process ({how})", step, PROBLEMS)
        return PROBLEMS if code > BY_PYTEST else 0


def _checked(arguments: Sequence[str]) -> int | None:
    """Return the exit code of the child process, or ``None`` if it did not end in time.

    At the end all processes that the driver started in it are killed.
    """
    environment = {key: it for key, it in os.environ.items() if not key.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "driverkit.installed", *arguments],
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        return child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
