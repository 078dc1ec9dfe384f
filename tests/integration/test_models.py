"""The importer finds the paper's blocks in the paper's networks."""

import numpy as np
import pytest
import shared
from networks import assert_sees_mistakes, smooth_images
from scheduler_helpers import DATA, table_1

from benchmarks import model_blocks
from benchmarks.schedule_counts import complexity
from ios_tf import UserError, models
from ios_tf.models.calibration import calibrate
from ios_tf.models.randwire import Graph, randwire, read_graphs
from ios_tf.models.squeezenet import squeezenet
from ios_tf.scheduler import UNPRUNED, Pruning, make_units

_RESTRICTED = Pruning(None, None, single_source=True)


def _blocks(model):
    """The different blocks of a model, and the graphs of the blocks' units."""
    blocks = model_blocks.blocks_of(model, 1, Pruning())
    patterns = model_blocks.DEFAULT_PATTERNS
    return blocks, [
        make_units(problem, patterns.units_of(problem)).contracted
        for problem in blocks.problems
    ]


def _assert_table_1(graph, name):
    """Asserts both of the paper's counts for the largest block of a network."""
    expected = table_1(name)
    for space, pruning in (("complete", UNPRUNED), ("published", _RESTRICTED)):
        counts = complexity(graph, pruning)
        assert counts.operators == expected["operators"]
        assert counts.width == expected["width"]
        assert counts.states == expected["states"]
        assert counts.transitions == expected[space]["transitions"]
        assert counts.schedules == pytest.approx(expected[space]["schedules"], 1e-14)


def test_randwire_has_one_block_per_stage():
    # The model has few channels, but the paper's graphs.
    graphs_of_paper = read_graphs(str(DATA / "randwire_graphs.json"))
    model = randwire(graphs_of_paper, channels=4, size=64, classes=10)
    blocks, graphs = _blocks(model)
    assert set(blocks.counts.values()) == {1}
    stages = [graph for graph in graphs if len(graph) > 3]
    # A stage has the nodes of its graph, and a sum of the nodes that no other node
    # reads. The first graph ends in a single node, so it has no sum.
    assert [len(stage) for stage in stages] == [16, 33, 33, 33]
    _assert_table_1(stages[2], "randwire")


def test_squeezenet_has_fire_modules():
    _, graphs = _blocks(squeezenet(96, classes=10))
    fires = [graph for graph in graphs if len(graph) > 2]
    # Modules whose number of channels changes have a convolution in the bypass.
    assert [len(fire) for fire in fires] == [6, 5, 6, 5, 6, 5, 6, 5]
    _assert_table_1(fires[0], "squeezenet")


def test_inception_has_its_modules():
    blocks, graphs = _blocks(shared.inception_v3())
    modules = [
        len(graph)
        for graph, problem in zip(graphs, blocks.problems, strict=True)
        for _ in range(blocks.counts[problem.signature])
    ]
    # The stem, three modules of 35 x 35, a reduction, four of 17 x 17, and so on.
    assert sorted(modules) == sorted([7, 9, 9, 9, 6, 12, 12, 12, 12, 8, 11, 11, 2])
    _assert_table_1(graphs[-2], "inception_v3")


def test_weights_are_calibrated_and_belong_to_the_seed():
    graph = Graph(4, ((0, 2), (1, 2), (2, 3)))

    def outputs(seed):
        import keras

        keras.utils.set_random_seed(seed)
        model = randwire([graph, graph], channels=8, size=64, classes=10)
        calibrate(model, seed)
        return model(smooth_images(2, 64, seed=9)).numpy()

    first = outputs(1)
    assert_sees_mistakes(first)
    assert 1e-3 < np.abs(first).max() < 1e3
    np.testing.assert_array_equal(outputs(1), first)
    assert not np.array_equal(outputs(2), first)


def test_generated_graphs_are_small_worlds():
    pytest.importorskip("networkx")
    from ios_tf.models.randwire import generated_graphs

    graphs = generated_graphs(seed=3)
    assert graphs == generated_graphs(seed=3)
    assert graphs != generated_graphs(seed=4)
    # Each node is connected to four nodes on average, so there are two edges per node.
    assert [(g.nodes, len(g.edges)) for g in graphs] == [(16, 32)] + [(32, 64)] * 3


def test_the_papers_graphs_are_as_large():
    graphs = read_graphs(str(DATA / "randwire_graphs.json"))
    assert [(g.nodes, len(g.edges)) for g in graphs] == [(16, 32)] + [(32, 64)] * 3


@pytest.mark.parametrize("text", ["", "{}", '{"stages": {"graphs": ["a"]}}'])
def test_refuses_files_without_graphs(text, tmp_path):
    path = tmp_path / "graphs.json"
    path.write_text(text)
    with pytest.raises(UserError, match="the graphs cannot be read"):
        read_graphs(str(path))
    with pytest.raises(UserError, match="the graphs cannot be read"):
        models.build("randwire", graphs=str(tmp_path / "missing.json"))


@pytest.mark.parametrize("edge", [(1, 1), (2, 1), (0, 3), (-1, 2)])
def test_refuses_broken_graphs(edge):
    with pytest.raises(ValueError, match="must go from a lower to a higher node"):
        Graph(3, (edge,))


def test_networks_are_named():
    assert {"inception_v3", "nasnet_a_large", "randwire", "squeezenet"} <= set(
        models.NETWORKS
    )
    with pytest.raises(KeyError):
        models.build("alexnet")
