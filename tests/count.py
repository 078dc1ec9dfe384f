"""Counts what has grown long: files, functions of Python, their parameters.

    python -m tests.count [DIRECTORY]

Of the files that git knows. Docstrings are no lines of a function; `self`, `cls` and
what is passed by name only are no parameters.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SUFFIXES = (".py", ".cc", ".h")
_FILE, _FUNCTION, _PARAMETERS = 400, 60, 5

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def main(root: str) -> None:
    """Prints the counts, and what they are of."""
    named = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    )
    names = [name for name in named.stdout.splitlines() if name.endswith(_SUFFIXES)]
    texts = {name: (Path(root) / name).read_text() for name in names}
    sizes = {name: len(text.splitlines()) for name, text in texts.items()}
    outside = {n: size for n, size in sizes.items() if not n.startswith("tests/")}
    functions = [
        (f"{name}:{function.lineno} {function.name}", function)
        for name, text in texts.items()
        if name.endswith(".py")
        for function in _functions(ast.parse(text))
    ]
    print(f"{len(sizes):6} files of Python and C++")
    _show(f"of more than {_FILE} lines", sizes, _FILE)
    _show("of these, outside of tests", outside, _FILE)
    print(f"{max(outside.values()):6} lines of the longest outside of tests")
    print(f"{len(functions):6} functions of Python")
    lengths = {where: _lines(function) for where, function in functions}
    _show(f"of more than {_FUNCTION} lines", lengths, _FUNCTION)
    counts = {where: _parameters(function) for where, function in functions}
    _show(f"of more than {_PARAMETERS} parameters", counts, _PARAMETERS)


def _show(what: str, numbers: dict[str, int], limit: int) -> None:
    above = {name: number for name, number in numbers.items() if number > limit}
    print(f"{len(above):6} {what}")
    for name in sorted(above, key=lambda name: -above[name]):
        print(f"{'':8}{above[name]:5} {name}")


def _functions(tree: ast.AST) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            yield node


def _lines(function: _Function) -> int:
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def _parameters(function: _Function) -> int:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["."]))
