"""ios_tf tune and ios_tf cache: fill and manage the schedule cache."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ios_tf.cli import arguments
from ios_tf.errors import UserError
from ios_tf.options import TuneOptions
from ios_tf.printable import printable
from ios_tf.tables import counted


def add_commands(commands: Any) -> None:
    """Adds the commands `tune` and `cache`."""
    parser = arguments.command(
        commands,
        "tune",
        _tune,
        "search for schedules of blocks that running processes did not find in the "
        "cache",
        "Processes that use ios_tf.enable() write blocks without a schedule to "
        "CACHE/pending. This command searches for schedules of these blocks by "
        "measuring on this machine, and writes them to the cache, where other "
        "processes find them.",
    )
    arguments.add_options(parser, TuneOptions)
    arguments.add_json(parser)
    arguments.add_quiet(parser)

    parser = commands.add_parser(
        "cache",
        help="list, check, clean, export and import the schedule cache",
        description=(
            "Manages the schedule cache, a directory of schedules that searches have "
            "found."
        ),
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(
        name: str, run: Callable[[argparse.Namespace], None], text: str
    ) -> arguments.Parser:
        parser = arguments.command(actions, name, run, text)
        arguments.add_options(parser, TuneOptions, "cache_dir")
        arguments.add_json(parser)
        return parser

    action("list", _list, "print the entries of each device, one per line")
    parser = action("show", _show, "print the entries of one block")
    parser.add_argument(
        "block", metavar="BLOCK", help="the first characters of the block's signature"
    )
    action(
        "verify",
        _verify,
        "print the entries that are not valid and would be ignored; exit with code 1 "
        "if there are any",
    )
    parser = action(
        "prune",
        _prune,
        "remove entries that are not valid, temporary files, and pending blocks that "
        "have a schedule",
    )
    parser.add_argument(
        "--other_devices",
        action="store_true",
        help="also remove the entries of devices other than --device",
    )
    arguments.add_options(parser, TuneOptions, "device")
    action("clear", _clear, "remove all entries and all stored latencies")
    parser = action("export", _export, "pack the entries into one file")
    parser.add_argument("file", metavar="FILE", help="file to write")
    parser = action(
        "import", _import, "add the entries from a file that ios_tf cache export wrote"
    )
    parser.add_argument("file", metavar="FILE", help="file to read")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace existing entries"
    )


def _cache(options: argparse.Namespace) -> tuple[Any, str]:
    """The module that manages caches, which imports TensorFlow, and the directory."""
    from ios_tf.tuning import cache, cache_admin

    return cache_admin, cache.directory_of(options.cache_dir)


def _tune(options: argparse.Namespace) -> None:
    from ios_tf.tuning.pending import tune

    chosen = arguments.chosen_options(TuneOptions, options)
    tuned = tune(**chosen, progress=not options.quiet)
    arguments.print_result(options, tuned.to_json(), tuned.table())
    if tuned.kept:
        raise UserError(
            f"{tuned.kept} schedules could not be written to {_cache(options)[1]}, so "
            "their blocks stay pending. Make the directory writable, and run ios_tf "
            "tune again"
        )


def _list(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    found = cache_admin.entries(directory)
    text = cache_admin.list_table(found) or f"{directory} is empty"
    arguments.print_result(options, _to_json(found), text)


def _to_json(entries: Iterable[Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(entry) for entry in entries]


def _show(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    found = cache_admin.entries_of(directory, options.block)
    text = "\n\n".join(map(cache_admin.description, found))
    arguments.print_result(options, _to_json(found), text)


def _verify(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    bad = cache_admin.verify(directory)
    lines = [printable(f"{entry.path}: {entry.problem}") for entry in bad]
    text = "\n".join(lines) or "all entries are valid"
    arguments.print_result(options, _to_json(bad), text)
    if bad:
        raise UserError(
            f"{len(bad)} entries are not valid and are ignored. Remove them with: "
            "ios_tf cache prune"
        )


def _prune(options: argparse.Namespace) -> None:
    from ios_tf.native import plugin

    cache_admin, directory = _cache(options)
    device = None
    if options.other_devices:
        device = plugin.device_fingerprint(options.device)
    removed = cache_admin.prune(directory, device)
    lines = [printable(entry.path) for entry in removed]
    text = "\n".join([*lines, f"{_entries(len(removed))} removed"])
    arguments.print_result(options, _to_json(removed), text)


def _clear(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    removed, latencies = cache_admin.clear(directory)
    text = f"{_entries(removed)} and "
    text += f"{counted(latencies, 'latency', 'latencies')} removed"
    arguments.print_result(options, {"entries": removed, "latencies": latencies}, text)


def _export(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    count = cache_admin.export(directory, options.file)
    text = printable(f"{options.file} contains {_entries(count)}")
    arguments.print_result(options, {"file": options.file, "entries": count}, text)


def _import(options: argparse.Namespace) -> None:
    cache_admin, directory = _cache(options)
    new, old = cache_admin.import_(directory, options.file, options.overwrite)
    text = f"{directory}: {_entries(new)} new, {old} existed already"
    arguments.print_result(options, {"new": new, "existing": old}, printable(text))


def _entries(count: int) -> str:
    return counted(count, "entry", "entries")
