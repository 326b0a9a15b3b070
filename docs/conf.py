"""Sphinx's configuration; tools/docs.sh builds the site.

The pages are plain reStructuredText, so that they read well on a code forge as they are: they
link to each other with ordinary links to files. What the site adds is generated from the code.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

project = "compute-agent"
release = metadata.version("compute-agent")
author = "compute-agent's contributors"
project_copyright = f"{author}, Apache License 2.0"

extensions = [
    "sphinx.ext.autodoc",
    "links_between_files",
    "rules_of_drivers",
    "options_of_config",
    "changelog",
    "errors_at_start",
]
exclude_patterns = ["design.md", "pictures", "_build"]
autodoc_typehints = "none"
highlight_language = "none"
smartquotes = False  # values and options are shown as one types them

html_theme = "furo"
html_title = f"compute-agent {release}"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
