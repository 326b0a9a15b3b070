"""The size of the Ceph cluster that guests' disks are in, by the command ``ceph df``.

As in Nova it is the raw size of the whole cluster, whatever the replicas of a pool take; libvirt's
storage pools of type ``rbd`` have the same number.

    {"stats": {"total_bytes": 6597069766656, ...},
     "pools": [{"name": "vms", "stats": {...}}, ...]}
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from drivers.errors import DriverNotReady

COMMAND = ("ceph", "df", "--format=json")


@dataclass(frozen=True, slots=True)
class CephCluster:
    """The command's arguments, the pool that it has to list, and the seconds that it may take."""

    pool: str
    arguments: tuple[str, ...] = ()
    within: float = 10.0

    @classmethod
    def from_conf(cls, group: Any) -> Self:
        """Return the cluster by the options of ``[libvirt]``."""
        options = {"--id": group.rbd_user, "--conf": group.images_rbd_ceph_conf}
        arguments = [word for option, text in options.items() if text for word in (option, text)]
        return cls(group.images_rbd_pool.strip(), tuple(arguments))

    def size(self) -> int:
        """Return the size of the cluster in bytes.

        :raises DriverNotReady: the command is missing, fails or is too slow, or does not list the
            pool; the message has the next step.
        """
        command = [*COMMAND, *self.arguments]
        shown, text = f"`{shlex.join(command)}`", output(command, self.within)
        try:
            answer = json.loads(text)
            pools = [str(pool["name"]) for pool in answer["pools"]]
            size = answer["stats"]["total_bytes"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise DriverNotReady(
                f"{shown} printed no JSON object with pools and stats, but {text[:60]!r}: check"
                " that it is Ceph's own command"
            ) from None
        if self.pool not in pools:
            raise DriverNotReady(
                f"{shown} lists no pool {self.pool!r} (it has: {', '.join(sorted(pools)) or 'none'}"
                "): correct [libvirt] images_rbd_pool"
            )
        if type(size) is not int or size <= 0:
            raise DriverNotReady(f"{shown} says that the cluster has {size!r} bytes: check it")
        return size


def output(command: Sequence[str], within: float) -> str:
    """Return what a command prints; it is killed with its children after ``within`` seconds.

    :raises DriverNotReady: it can't be run, fails, or is too slow; the message has the next step.
    """
    shown = f"`{shlex.join(command)}`"
    try:
        process = subprocess.Popen(  # the options of this file are the operator's
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise DriverNotReady(f"{shown}: no command {command[0]}: install ceph-common") from None
    except OSError as err:
        raise DriverNotReady(f"{shown} can't be run: {err.strerror}") from None
    with process:
        try:
            text, problem = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise DriverNotReady(
                f"{shown} was killed after {within:g} s: check that this host reaches the"
                " cluster's monitors"
            ) from None
    if process.returncode:
        last = (problem.strip().splitlines() or ["no message"])[-1][:200]
        raise DriverNotReady(
            f"{shown} failed with exit code {process.returncode}: {last}; run it as this agent's"
            " user, who has to be able to read the configuration and the keyring of [libvirt]"
            " rbd_user"
        )
    return text
