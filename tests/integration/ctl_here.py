"""``computectl`` in this process: a tenth of what a process of its own costs.

For tests that run many commands and are about what those say; that they run as processes,
``test_computectl`` and ``test_computectl_docs`` show.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from computectl.app import ComputeCtl
from tests.integration.agent_host import AgentHost, Said


@dataclass
class Here(AgentHost):
    """A host whose commands run here, as wide as a pipe."""

    def ctl(self, *args: str, **environ: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        width = mock.patch.dict("os.environ", {"COLUMNS": "80", **environ})
        with width, redirect_stdout(out), redirect_stderr(err):
            try:
                code = ComputeCtl().run(["--config-file", str(self.config), *args])
            except SystemExit as end:  # argparse
                code = int(end.code or 0)
        return Said(code, out.getvalue(), err.getvalue())
