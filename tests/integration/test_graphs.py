"""Frozen signatures."""

import functools

import numpy as np
import shared
import tensorflow as tf

from ios_tf.model import frozen_graphs, function_library, graph_optimizer, saved_models
from ios_tf.scheduler import sequential_schedule


@functools.cache
def folded() -> frozen_graphs.FrozenSignature:
    loaded = saved_models.load(str(shared.cells()))
    name = saved_models.choose_signature(None, loaded)
    return graph_optimizer.fold_constants(
        frozen_graphs.freeze(name, loaded.signatures[name])
    )


def constants(graph_def) -> dict[str, np.ndarray]:
    return {
        node.name: tf.make_ndarray(node.attr["value"].tensor)
        for node in graph_def.node
        if node.op == "Const"
    }


def test_large_filters_become_one_number_each():
    whole = folded()
    light = whole.without_weights
    before, after = constants(whole.graph_def), constants(light.graph_def)
    assert [n.name for n in whole.graph_def.node] == [
        n.name for n in light.graph_def.node
    ]
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed
    for name, value in after.items():
        assert value.shape == before[name].shape
        if name in changed:
            assert before[name].nbytes >= 1 << 12
            assert np.ptp(value) == 0.0
    assert light.graph_def.ByteSize() < whole.graph_def.ByteSize()
    assert light.without_weights.graph_def == light.graph_def


def test_graphs_have_the_same_blocks_and_programs_without_weights():
    whole = folded()
    light = whole.without_weights
    # `collect` sees only light graphs; its results are used to rewrite the whole graph.
    collected = graph_optimizer.collect(light, 1)
    schedules = {s: sequential_schedule(p) for s, p in collected.problems.items()}
    rewritten = [graph_optimizer.rewrite(one, schedules, [1]) for one in (whole, light)]
    attributes = [
        {
            node.name: {k: v for k, v in node.attr.items() if k.startswith("_ios")}
            for node in graph_def.node
        }
        for graph_def in rewritten
    ]
    assert attributes[0] == attributes[1]
    assert any(attributes[0].values())


def test_pruned_as_tensorflow_prunes():
    graph_def = folded().graph_def
    for part in (3, 2):
        wanted = [graph_def.node[len(graph_def.node) // part].name]
        found = function_library.pruned(graph_def, wanted)
        assert found == tf.compat.v1.graph_util.extract_sub_graph(graph_def, wanted)
        assert 0 < len(found.node) < len(graph_def.node)
