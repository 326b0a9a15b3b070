#!/usr/bin/env python3
"""Count the lines of this repository by package: ``tools/count.py [COMMIT]``.

Without a commit, the files of the work tree that git does not ignore are counted.  Each line of a
Python file counts once: as code, docstring, comment, import or blank.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PRODUCTION = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")
OTHERS = ("tests", "benchmarks", "examples", "docs", "tools")
COLUMNS = ("files", "functions", "lines", "code", "docstrings", "comments", "imports", "blank")
NO_TEXT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def main(arguments: list[str]) -> int:
    """Print a table of the packages, and the words of the pages."""
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    packages: dict[str, Counter[str]] = {name: Counter() for name in (*PRODUCTION, *OTHERS)}
    words = 0
    for name, text in _files(*arguments):
        package = name.split("/")[0]
        if name.endswith(".py") and package in packages:
            packages[package] += counted(text)
        if _is_page(name) and not name.endswith(".py"):
            words += len(text.split())
    rows = {name: packages[name] for name in PRODUCTION}
    rows["production"] = sum(rows.values(), Counter())
    rows |= {name: packages[name] for name in OTHERS}
    lines = [f"{'':18}" + "".join(f"{column:>11}" for column in COLUMNS)]
    for name, counts in rows.items():
        lines.append(f"{name:18}" + "".join(f"{counts[column]:11,}" for column in COLUMNS))
    sys.stdout.write("\n".join([*lines, f"words of pages: {words:,}", ""]))
    return 0


def counted(text: str) -> Counter[str]:
    """Count the lines of a Python file by kind, and its functions."""
    tree, comments, code = ast.parse(text), set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        if token.type not in NO_TEXT:
            code.update(range(token.start[0], token.end[0] + 1))
    texts = _lines(node for node in ast.walk(tree) if _is_text(node))
    imports = _lines(
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    )
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    lines = text.count("\n")
    return Counter(
        files=1,
        functions=sum(isinstance(node, functions) for node in ast.walk(tree)),
        lines=lines,
        code=len(code - texts - imports),
        docstrings=len(texts),
        comments=len(comments - code),
        imports=len(imports),
        blank=lines - len(code | comments),
    )


def _is_text(node: ast.AST) -> bool:
    """Whether the node is a docstring of a module, class, function, constant or field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _lines(nodes: Iterator[ast.AST]) -> set[int]:
    return {
        line
        for node in nodes
        if isinstance(node, ast.stmt)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _is_page(name: str) -> bool:
    return name.startswith("docs/") or name in ("README.rst", "CONTRIBUTING.rst")


def _files(commit: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each Python file and page."""
    wanted = (".py", ".rst", ".md")
    root = Path(__file__).resolve().parent.parent
    if commit:
        archive = io.BytesIO(_git(root, "archive", "--format=tar", commit))
        with tarfile.open(fileobj=archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name.endswith(wanted) else None
                if content is not None:
                    yield member.name, content.read().decode()
        return
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in listed.decode().split("\0"):
        if name.endswith(wanted) and (root / name).is_file():
            yield name, (root / name).read_text()


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout  # noqa: S607


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
