"""Traits that the operator chose for devices, remembered from one start to the next.

A trait that is taken out of [pci] device_spec shall go from its provider, and one that
somebody else put there shall stay: only a record of what this driver gave tells the two
apart.  It is written before Placement is, and has at least what may be there: what was
given before stays in it until Placement has been seen without.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drivers.libvirt.reported import HostReport, Reported

FILE = "libvirt-traits.json"

Given = Mapping[str, frozenset[str]]
"""Chosen traits by provider name."""


def managing(report: HostReport, given: Given) -> HostReport:
    """The report, whose children may take away what they were given before."""
    children = [_managing(one, given.get(one.name, frozenset())) for one in report.children]
    return replace(report, children=children)


def given_after(children: Sequence[Reported], given: Given, there: Given) -> Given:
    """What may be on providers once these children are; ``there`` are the traits now."""
    chosen = {one.name: one.chosen for one in children}
    now = {
        name: chosen.get(name, frozenset())
        | (given.get(name, frozenset()) & there.get(name, frozenset()))
        for name in {*chosen, *given}
    }
    return {name: traits for name, traits in sorted(now.items()) if traits}


class ChosenTraits:
    """The record, in the state directory; ``problem`` says why it can't be kept."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._given: Given | None = None
        self.problem = ""

    def given(self) -> Given:
        """As it was kept; nothing where there is none, or none that can be read."""
        if self._given is None:
            self._given = self._read()
        return self._given

    def keep(self, given: Given) -> None:
        """Write it, if it is another one or could not be written before."""
        if given == self.given() and not self.problem:
            return
        self._given = given
        try:
            self._write({name: sorted(traits) for name, traits in given.items()})
        except OSError as err:
            self.problem = f"{self._path} can't be written ({err.strerror}): traits that leave"
            self.problem += " [pci] device_spec are not taken away after the next start"
        else:
            self.problem = ""

    def _read(self) -> Given:
        try:
            found = json.loads(self._path.read_text())
            return {str(name): frozenset(map(str, traits)) for name, traits in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as err:
            self.problem = f"{self._path} can't be read ({err})"
            return {}

    def _write(self, plain: Mapping[str, Sequence[str]]) -> None:
        if not plain:
            self._path.unlink(missing_ok=True)
            return
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)  # it could be a link
        try:
            with new.open("x") as file:
                file.write(json.dumps(plain))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)


def _managing(one: Reported, before: frozenset[str]) -> Reported:
    return replace(one, managed=one.managed | before) if before else one
