"""Full-size networks of the zoo: nearly all of each is in few regions.

`python -m benchmarks zoo` converts and runs them; these tests only partition them.
"""

import dataclasses

import pytest

from benchmarks.zoo.measure import coverage
from benchmarks.zoo.registry import networks
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.scheduler import sequential_schedule

NETWORKS = [
    "audio_conv1d",
    "crnn_front",
    "shufflenet",
    "ssd_nms",
    "text_cnn",
    "wavenet",
]


@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_in_few_regions(name, tmp_path):
    model = networks()[name]()
    model.save(str(tmp_path))
    loaded = saved_models.load(str(tmp_path))
    signature = saved_models.choose_signature(None, loaded)
    frozen = frozen_graphs.freeze(signature, loaded.signatures[signature])
    folded = graph_optimizer.fold_constants(frozen)
    found = graph_optimizer.collect(folded, batch_size=1)
    schedules = {s: sequential_schedule(p) for s, p in found.problems.items()}
    graph_def = graph_optimizer.rewrite(folded, schedules, [1], "cpu")
    rewritten = dataclasses.replace(folded, graph_def=graph_def)
    covered = coverage(frozen, rewritten, model.inputs(1))
    assert covered["share"] >= 0.99
    assert covered["regions"] <= covered["outputs"] + 2
