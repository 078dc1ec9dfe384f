"""Writes docs/reference/options.md: python -m tests.options_page"""

from pathlib import Path

from ios_tf import options

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/options.md"

# The functions with options, and the commands that call them.
_FUNCTIONS = {
    "convert": options.ConvertOptions,
    "optimize": options.OptimizeOptions,
    "tune": options.TuneOptions,
    "enable": options.EnableOptions,
    "bench": options.BenchOptions,
}
_COMMANDS = ("convert", "tune", "bench")
_NOT_IN_PYTHON = ("bench",)

_INTRODUCTION = """\
# Options

This page lists the options of `ios_tf.convert`, `ios_tf.optimize`, `ios_tf.tune` and
`ios_tf.enable`. You give them as keyword arguments. The commands `ios_tf convert` and
`ios_tf tune` take the same options as flags. `ios_tf.session_config` has the options of
`enable`. `ios_tf bench` is only a command.

`python -m tests.options_page` generates this page from `ios_tf/options.py`.
"""


def page() -> str:
    """The text of the page."""
    lines = [_INTRODUCTION]
    for group in options.GROUPS:
        lines += [
            f"## {group}\n",
            "| in Python | command line | functions | default | meaning |",
            "|---|---|---|---|---|",
            *_rows(group),
            "",
        ]
    return "\n".join(lines)


def _rows(group: str) -> list[str]:
    # An option with the same meaning in several functions is one row.
    functions: dict[tuple[str, str, str], list[str]] = {}
    flags: dict[tuple[str, str, str], str] = {}
    for function, cls in _FUNCTIONS.items():
        for name, option in options.options_of(cls).items():
            hidden = option.flag is None and function in _NOT_IN_PYTHON
            if option.group != group or hidden:
                continue
            default = options.default_text(cls, name) or (
                "off" if isinstance(getattr(cls, name), bool) else ""
            )
            row = name, default, option.help
            functions.setdefault(row, []).append(function)
            if function in _COMMANDS and option.flag is not None:
                flags[row] = f"`--{option.flag or name}`"
    return [
        f"| {_in_python(row[0], names)} | {flags.get(row, '')} | {', '.join(names)} "
        f"| {row[1]} | {row[2][0].upper()}{row[2][1:]}. |"
        for row, names in functions.items()
    ]


def _in_python(name: str, functions: list[str]) -> str:
    return "" if {*functions} <= {*_NOT_IN_PYTHON} else f"`{name}`"


if __name__ == "__main__":
    PAGE.write_text(page())
