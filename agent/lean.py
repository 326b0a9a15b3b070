"""Shorten the start; ``agent.main`` imports this module before all others.

Optional libraries that the agent does not need are made unavailable: osprofiler (with WebOb 4 MiB),
which keystoneauth1 would load for tracing headers, and charset_normalizer (3 MiB), with which
requests would guess the encoding of replies that are JSON.

The garbage collector is off while modules are loaded: it would find nothing, and takes a tenth of
the time.
"""

import gc
import sys
import warnings

UNNEEDED = ("osprofiler", "charset_normalizer", "chardet")

for _NAME in UNNEEDED:
    sys.modules.setdefault(_NAME, None)  # type: ignore[arg-type]  # import fails
warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
gc.disable()


def loaded() -> None:
    """Turn the garbage collector on; it never looks at the modules that are loaded by now."""
    gc.enable()
    gc.freeze()
