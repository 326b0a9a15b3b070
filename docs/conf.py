"""Sphinx's configuration; tools/docs.sh builds the site.

The pages are plain reStructuredText, so that they read well on a code forge as they are: they
link to each other with ordinary links to files. What the site adds is generated from the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

project = "compute-agent"
author = "compute-agent's contributors"
project_copyright = f"{author}, Apache License 2.0"

extensions = ["sphinx.ext.autodoc", "links_between_files", "rules_of_drivers", "options_of_config"]
exclude_patterns = ["design.md", "pictures", "costs", "fleet", "_build"]
autodoc_typehints = "none"
highlight_language = "none"
smartquotes = False  # values and options are shown as one types them

html_theme = "alabaster"
html_theme_options = {
    "description": "A hypervisor's inventory in OpenStack Placement",
    "fixed_sidebar": True,
    "page_width": "70rem",
    "sidebar_width": "15rem",
}
html_static_path: list[str] = []
html_show_sphinx = False
html_copy_source = False
