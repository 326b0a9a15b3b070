"""Imports that are replaced to keep a start short; ``agent.main`` imports this before all else.

Two libraries load others if these are there, which an agent has no use for: keystoneauth1 adds
the headers of a trace that nobody began (osprofiler, with WebOb: 4 MiB), and requests would
guess the encoding of texts that are JSON (charset_normalizer: 3 MiB).  They are "not there".

The garbage collector looks at all that is loaded again and again while it is loaded, and finds
nothing: a tenth of the time.
"""

import gc
import sys
import warnings

UNNEEDED = ("osprofiler", "charset_normalizer", "chardet")

for _NAME in UNNEEDED:
    sys.modules.setdefault(_NAME, None)  # type: ignore[arg-type]  # "not there"
warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
gc.disable()


def loaded() -> None:
    """All is: it stays, and need not be looked at any more."""
    gc.enable()
    gc.freeze()
