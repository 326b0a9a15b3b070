#!/usr/bin/env python3
"""Print debian/copyright in the format DEP-5: copyright.py MAINTAINER [SITE-PACKAGES].

With a site-packages directory it has a paragraph for each distribution there, from its metadata.
"""

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

INSTALLED = "usr/lib/compute-agent/lib"
OURS = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: compute-agent
Upstream-Contact: {maintainer}

Files: *
Copyright: 2026 the contributors to compute-agent
License: Apache-2.0

License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
"""
THEIRS = """
Files: {files}
Copyright: {authors}
License: {license}
 {text}
"""
PREFIX = "License :: OSI Approved :: "


def paragraphs(site: Path) -> Iterator[str]:
    """Yield a paragraph for each distribution."""
    for distribution in sorted(metadata.distributions(path=[str(site)]), key=lambda it: it.name):
        about, files = distribution.metadata, distribution.files or []
        tops = {file.parts[0] for file in files if (site / file.parts[0]).exists()} - {".."}
        where = f"{INSTALLED}/{site.parent.name}/{site.name}"
        licenses = [
            f"/{where}/{file}"
            for file in files
            if re.search("licen[cs]e|copying", file.name, re.IGNORECASE) and (site / file).is_file()
        ]
        classified = [line for line in about.get_all("Classifier", []) if line.startswith(PREFIX)]
        named = about["License-Expression"] or about["License"] or "".join(classified[:1])
        yield THEIRS.format(
            files="\n ".join(
                f"{where}/{top}" + ("/*" if (site / top).is_dir() else "") for top in sorted(tops)
            ),
            authors=about["Author"] or about["Author-email"] or f"the authors of {about['Name']}",
            license=short_name(named),
            text="\n ".join(licenses) or named or "See the homepage.",
        )


def short_name(named: str) -> str:
    """Return a license's short name, in a single word."""
    line = named.removeprefix(PREFIX).strip().split("\n")[0]
    return re.sub(r"[^\w.+-]+", "-", line).strip("-") or "other"


if __name__ == "__main__":
    sys.stdout.write(OURS.format(maintainer=sys.argv[1]))
    for site_packages in sys.argv[2:]:
        sys.stdout.writelines(paragraphs(Path(site_packages)))
