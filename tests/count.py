"""Lists long files, long functions, and functions with many parameters.

    python -m tests.count [DIRECTORY]

It reads the files that git tracks. The lines of a docstring do not count as lines of
the function, and `self` and `cls` do not count as parameters. C++ functions are found
by their braces, not by a parser. Functions in the texts of kernels, in macros and in
other functions are therefore not found.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SUFFIXES = (".py", ".cc", ".h")
_FILE, _FUNCTION, _PARAMETERS = 400, 60, 5
# Comments, literals and preprocessor lines, whose braces are not code.
_NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.[^'\n]*|[^'\\\n])'|^[ \t]*#(?:\\\n|[^\n])*",
    re.S | re.M,
)
# Prefixes of a function's head that contain angle brackets or parentheses.
_PREFIX = re.compile(r"template\s*<[^;{(]*?>(?=\s)|__attribute__\s*\(\(.*?\)\)", re.S)
_HEAD = re.compile(r"([^=(]*?)(~?\w+)\s*\((.*)", re.S)

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class _Function(NamedTuple):
    name: str
    line: int
    lines: int
    parameters: int


def main(root: str) -> None:
    """Prints the counts, and the files and functions above each limit."""
    named = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    )
    names = [name for name in named.stdout.splitlines() if name.endswith(_SUFFIXES)]
    texts = {name: (Path(root) / name).read_text() for name in names}
    sizes = {name: len(text.splitlines()) for name, text in texts.items()}
    outside = {n: size for n, size in sizes.items() if not n.startswith("tests/")}
    print(f"{len(sizes):6} files of Python and C++")
    _show(f"of more than {_FILE} lines", sizes, _FILE)
    _show("of these, outside of tests", outside, _FILE)
    print(f"{max(outside.values()):6} lines of the longest outside of tests")
    for language, suffixes, functions_of in (
        ("Python", ".py", _python_functions),
        ("C++", (".cc", ".h"), _cc_functions),
    ):
        functions = {
            f"{name}:{function.line} {function.name}": function
            for name, text in texts.items()
            if name.endswith(suffixes)
            for function in functions_of(text)
        }
        print(f"{len(functions):6} functions of {language}")
        lengths = {where: f.lines for where, f in functions.items()}
        _show(f"of more than {_FUNCTION} lines", lengths, _FUNCTION)
        counts = {where: f.parameters for where, f in functions.items()}
        _show(f"of more than {_PARAMETERS} parameters", counts, _PARAMETERS)


def _show(what: str, numbers: dict[str, int], limit: int) -> None:
    above = {name: number for name, number in numbers.items() if number > limit}
    print(f"{len(above):6} {what}")
    for name in sorted(above, key=lambda name: -above[name]):
        print(f"{'':8}{above[name]:5} {name}")


def _python_functions(text: str) -> Iterator[_Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _Definition):
            yield _Function(node.name, node.lineno, _lines(node), _parameters(node))


def _lines(function: _Definition) -> int:
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def _parameters(function: _Definition) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    named_only = len(arguments.kwonlyargs)
    return len(names) - (names[:1] in (["self"], ["cls"])) + named_only


def _cc_functions(text: str) -> Iterator[_Function]:
    text = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    opened: list[_Function | None] = []  # None: not the body of an outer function
    parentheses = begin = 0
    for mark in re.finditer(r"[(){};]", text):
        if mark[0] in "()":
            parentheses += 1 if mark[0] == "(" else -1
        if parentheses or mark[0] in "()":
            continue
        if mark[0] == "{":
            inside = any(opened)
            opened.append(None if inside else _headed(text, begin, mark.start()))
        elif mark[0] == "}" and opened and (function := opened.pop()):
            last = text.count("\n", 0, mark.start()) + 1
            yield function._replace(lines=last - function.line + 1)
        begin = mark.end()


def _headed(text: str, begin: int, end: int) -> _Function | None:
    """The function that text[begin:end] is the head of, or None if it is not a head."""
    head = text[begin:end]
    line = text.count("\n", 0, end - len(head.lstrip())) + 1
    head = _PREFIX.sub("", head.replace("operator()", "operator_call"))
    found = _HEAD.match(re.sub(r"operator\s*[^\w\s(]+", "operator_of", head))
    return found and _Function(found[2], line, 0, _cc_parameters(found[3]))


def _cc_parameters(rest: str) -> int:
    """The number of parameters in the text after the opening parenthesis."""
    depth, commas = 0, 0
    for end, char in enumerate(rest):
        if char in "(<[{":
            depth += 1
        elif char in ")>]}":
            if char == ")" and depth == 0:
                return commas + 1 if rest[:end].strip() else 0
            depth -= 1
        elif char == "," and depth == 0:
            commas += 1
    return 0


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["."]))
