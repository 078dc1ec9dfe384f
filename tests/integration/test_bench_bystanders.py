"""The benchmark of graphs in which the plugin finds nothing to optimize."""

import graph_helpers as gh
import pytest
from cache_helpers import undoing_enable

import ios_tf
from benchmarks import bystanders
from ios_tf.native import grappler


def test_rows_and_table():
    rows = bystanders.bench(rounds=1, repeats=1)
    assert [(row.graph, row.variant) for row in rows] == [
        (graph, variant)
        for graph in ("BERT-like encoder", "training step")
        for variant in ("TensorFlow", "plugin", "enabled")
    ]
    assert all(ms > 0 for row in rows for ms in (*row.first_ms, *row.run_ms))
    table = bystanders.results_table(rows)
    assert len(table.splitlines()) >= 1 + len(rows)
    # The benchmark restores the state of the process.
    assert not ios_tf.status().enabled
    assert ios_tf.status().plugin_runs


@pytest.mark.parametrize("name", bystanders.GRAPHS)
def test_the_plugin_leaves_their_nodes(name, tmp_path):
    call = bystanders.GRAPHS[name]()
    with grappler.options(use_plugin_optimizers=False):
        expected = gh.executed_ops(bystanders._traced(call))
    with undoing_enable():
        ios_tf.enable(cache_dir=str(tmp_path), on_miss="greedy")
        found = gh.executed_ops(bystanders._traced(call))
    assert sum(expected.values()) > 50
    assert found == expected
