"""enable, disable, status and session_config on frozen graphs in a user's process."""

import ctypes
import dataclasses
import gc
import json
import logging
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import graph_helpers as gh
import keras
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from cache_helpers import undoing_enable
from commands import run_prepared, run_python
from keras import layers
from threads import in_threads

import ios_tf
from ios_tf.native import engine, plugin
from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem, greedy_schedule, sequential_schedule
from ios_tf.tuning.cache import ScheduleCache
from ios_tf.tuning.settings import SearchSettings

FAST = {"max_groups": 2, "max_group_size": 2, "progress": False}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache directory. After the test, ios_tf.disable() is called."""
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "default"))
    with undoing_enable():
        yield str(tmp_path / "cache")


@pytest.fixture(scope="module")
def network() -> gh.Graph:
    """Two branches that join, followed by two more."""
    inputs = keras.Input((9, 9, 4))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    for filters in (4, 6):
        left = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        right = layers.Conv2D(filters, 1, padding="same")(x)
        x = layers.Concatenate()(
            [left, right, layers.AveragePooling2D(3, 1, "same")(x)]
        )
    x = layers.GlobalAveragePooling2D()(x)
    return gh.freeze(gh.randomised(keras.Model(inputs, x)), (None, 9, 9, 4))


IMAGES = gh.random_array(1, 9, 9, 4, seed=3)


def counts() -> dict[str, int]:
    return dict(ios_tf.status().counts)


def change(before: dict[str, int]) -> dict[str, int]:
    """The counts that changed, and by how much."""
    after = counts()
    return {key: after[key] - before[key] for key in after if after[key] != before[key]}


def files(directory: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(where, name), directory)
        for where, _, names in os.walk(directory)
        for name in names
        if "latencies" not in name
    )


def executed_programs(function, *arguments) -> list[dict]:
    """The programs of the regions that TensorFlow executes."""
    return [
        json.loads(node.attr["program"].s)
        for node in gh.executed_nodes(function, *arguments)
        if gh.runs_on_the_engine(node)
    ]


def check(graph: gh.Graph, images: np.ndarray = IMAGES) -> int:
    """Checks the graph as a new function; returns the number of regions that ran."""
    function = gh.as_function(graph)
    regions = len(executed_programs(function, tf.constant(images)))
    (found,) = function(tf.constant(images))
    gh.assert_equal([found.numpy()], gh.run(graph, images))
    return regions


def test_a_block_that_is_missed_stays_and_waits_for_tune(cache, network, monkeypatch):
    device = plugin.device_fingerprint("cpu")
    expected = gh.executed_ops(gh.as_function(network), tf.constant(IMAGES))
    ios_tf.enable(cache_dir=cache)
    before = counts()
    assert check(network) == 0
    waiting = files(cache)
    assert len(waiting) >= 1
    assert all(name.startswith(f"pending/{device}/") for name in waiting)
    # TensorFlow optimizes the function twice, but its blocks are looked up only once.
    assert change(before) == {"passed_graphs": 1, "blocks_missed": len(waiting)}
    # TensorFlow runs its own nodes until there is a schedule.
    found = gh.executed_ops(gh.as_function(network), tf.constant(IMAGES))
    ready = {"IosRegionReady": 1, "Switch": 1, "IosRegion": 1, "Merge": 1}
    assert found - expected == Counter(ready)
    assert expected - found == Counter()
    assert files(cache) == waiting
    monkeypatch.setenv("IOS_TF_REFRESH_SECONDS", "0")
    assert gh.executed_ops(gh.as_function(network), tf.constant(IMAGES)) == expected
    assert ios_tf.status().pending == len(waiting)

    tuned = ios_tf.tune(cache, warmup_runs=0, runs=1, sample_count=1)
    assert len(tuned.schedules) == len(waiting)
    assert set(files(cache)) >= {name.removeprefix("pending/") for name in waiting}
    assert ios_tf.status().pending == 0
    before = counts()
    assert check(network) == 1
    assert change(before) == {
        "scheduled_graphs": 1,
        "regions": 1,
        "blocks_cached": len(waiting),
    }


@pytest.mark.parametrize("form", ["chain", "branches"])
def test_algorithms_that_were_found_are_used(cache, form):
    inputs = keras.Input((12, 12, 16))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    y = layers.Conv2D(16, 3, padding="same")(x if form == "chain" else inputs)
    if form == "branches":
        y = layers.Concatenate()([x, y])
    y = layers.GlobalAveragePooling2D()(y)
    graph = gh.freeze(gh.randomised(keras.Model(inputs, y)), (None, 12, 12, 16))
    images = gh.random_array(1, 12, 12, 16)
    winograd = "winograd_4x4"
    ios_tf.enable(cache_dir=cache)
    # A chain has only one schedule, but its algorithms may still be searched.
    assert check(graph, images) == (form == "chain")
    found = ScheduleCache(cache, plugin.device_fingerprint("cpu"))
    for path in files(cache):
        problem = ios_tf.tuning.pending.read_problem(cache, os.path.join(cache, path))
        convolutions = [i for i, a in enumerate(problem.algorithms) if winograd in a]
        schedule = dataclasses.replace(
            sequential_schedule(problem),
            algorithms=dict.fromkeys(convolutions, winograd),
            metadata={"latency_ms": 1.0, "sequential_ms": 1.0},
        )
        found.put(schedule, SearchSettings())
    (program,) = executed_programs(gh.as_function(graph), tf.constant(images))
    (entry,) = program["schedules"]
    computed = entry["schedule"]["algorithms"][winograd]
    types = [operator["type"] for operator in program["block"]["operators"]]
    assert [types[i] for i in computed] == ["conv2d"] * 2
    assert check(graph, images) == 1


def test_a_tuned_batch_size_is_that_of_the_function(cache, network):
    graph_of_four = gh.freeze(
        lambda x: tf.import_graph_def(
            network.graph_def, {network.inputs[0]: x}, list(network.outputs)
        )[0],
        (4, 9, 9, 4),
    )
    ios_tf.enable(cache_dir=cache, batch_size=2)
    images = gh.random_array(4, 9, 9, 4, seed=4)
    check(graph_of_four, images)
    check(network)
    tuned = ios_tf.tune(cache, warmup_runs=0, runs=1, sample_count=1)
    assert {problem.shapes[0][0] for problem, _ in tuned.schedules} == {2, 4}
    assert check(graph_of_four, images) == 1
    # The graph accepts any batch size, and uses the schedule for batch size 2 for all.
    assert check(network, images) == 1


def test_greedy_on_a_miss(cache, network):
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    assert check(network) == 1
    (program,) = executed_programs(gh.as_function(network), tf.constant(IMAGES))
    problem = Problem.from_json(engine.problem(program["block"]))
    blocks = [
        ios_tf.tuning.pending.read_problem(cache, os.path.join(cache, name))
        for name in files(cache)
    ]
    expected = {
        frozenset(block.names[op] for group in stage.groups for op in group)
        for block in blocks
        for stage in greedy_schedule(block).stages
    }
    found = {
        frozenset(problem.names[op] for group in stage["groups"] for op in group)
        for entry in program["schedules"]
        for stage in entry["schedule"]["stages"]
    }
    assert expected <= found


POSITIONS = gh.random_array(1, 9, 9, 8, seed=4)
# Functions that the test puts between convolutions. A batch of one image would not show
# what they compute. For example, x[:1] does not change such a batch.
BETWEEN = {
    "first image": lambda x: x[:1],
    "last image": lambda x: tf.slice(x, [tf.shape(x)[0] - 1, 0, 0, 0], [1, -1, -1, -1]),
    "corner": lambda x: x[:, :5, :7],
    "clamped channels": lambda x: x[..., -100:],
    "positions": lambda x: x + POSITIONS,
    "scales": lambda x: x * POSITIONS[:, :1, :1],
    "first as template": lambda x: x - x[:1],
}


@pytest.mark.parametrize("name", BETWEEN)
def test_graphs_that_one_example_does_not_tell(cache, name):
    inputs = keras.Input((9, 9, 4))
    before = [layers.Conv2D(8, k, padding="same", activation="relu") for k in (3, 1)]
    after = [layers.Conv2D(8, k, padding="same") for k in (3, 1)]
    both = before[0](inputs) + before[1](inputs)
    x = layers.Lambda(BETWEEN[name], output_shape=(None, None, 8))(both)
    model = gh.randomised(keras.Model(inputs, after[0](x) + after[1](x)))
    graph = gh.freeze(model, (None, 9, 9, 4))
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    function = gh.as_function(graph)
    assert executed_programs(function, tf.constant(IMAGES))
    for batch in (1, 2, 5):
        images = gh.random_array(batch, 9, 9, 4)
        (found,) = function(tf.constant(images))
        gh.assert_equal([found.numpy()], gh.run(graph, images))


def test_trifles_are_left_to_tensorflow(cache):
    """Very small convolutions get no region, because entering it would take longer."""
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    one, more = gh.constant(1, 1, 8, 8), gh.constant(3, 3, 8, 8, seed=1)

    def stack(x, filters):
        for each in filters:
            x = tf.nn.relu(tf.nn.conv2d(x, each, 1, "SAME"))
        return x

    def regions(filters, size):
        graph = gh.freeze(lambda x: stack(x, filters), (1, size, size, 8))
        return check(graph, gh.random_array(1, size, size, 8))

    assert regions([one], 4) == regions([one, one], 4) == regions([more], 8) == 0
    assert regions([one] * 3, 4) == regions([more, more], 16) == 1


def test_search_on_a_miss(cache, network):
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    before = counts()
    assert check(network) == 1
    found = change(before)
    assert found["blocks_searched"] == len(files(cache)) >= 1
    before = counts()
    assert check(network) == 1
    assert change(before)["blocks_cached"] == found["blocks_searched"]
    assert "blocks_searched" not in change(before)


def test_many_threads_search_at_once(cache, network):
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)

    def load(_):
        (output,) = gh.as_function(network)(tf.constant(IMAGES))
        return output.numpy()

    (expected,) = gh.run(network, IMAGES)
    gh.assert_equal(in_threads(load, range(4)), [expected] * 4)


def problem_request(network: gh.Graph, cache: str) -> str:
    problem = gh.collect(network)["problems"][0]
    return json.dumps({**problem, "device": "cpu", "cache_dir": cache})


def ask(request: str) -> str | None:
    """Asks for a search as the optimizer does, from a thread that holds the GIL."""
    library = ctypes.PyDLL(str(plugin.LIBRARIES / "libios_tf_ops.so"))
    library.ios_tf_search.restype = ctypes.c_void_p
    address = library.ios_tf_search(request.encode())
    return ctypes.string_at(address).decode() if address else None


def test_search_from_a_thread_that_holds_pythons_lock(cache, network):
    request = problem_request(network, cache)
    assert ask(request) is None  # search is not enabled
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    schedule = json.loads(ask(request))
    assert schedule["signature"] == json.loads(request)["signature"]
    assert ask("{}") is None


def test_no_deadlock_with_a_lock_that_is_never_let_go(cache, network):
    request = problem_request(network, cache)
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    library = plugin.runtime()
    # No release function is set, so this thread keeps the lock that the search needs.
    library.ios_tf_open_search(None, None, None, 50)
    assert ask(request) is None
    assert library.ios_tf_search  # still usable


def test_schedules_of_convert_are_found(cache, tmp_path):
    graph = shared.branches_graph()
    ios_tf.convert(
        shared.branches(),
        str(tmp_path / "converted"),
        cache_dir=cache,
        warmup_runs=0,
        runs=1,
        sample_count=1,
        max_groups=2,
        max_group_size=2,
        keep_slower=True,
    )
    ios_tf.enable(cache_dir=cache)
    before = counts()
    images = networks.smooth_images(1, 17, seed=7).numpy()
    assert check(graph, images) == 1
    assert "blocks_missed" not in change(before)


def test_a_cache_on_another_filesystem(network, cache):
    directory = "ram://ios_tf_test_runtime"
    ios_tf.enable(cache_dir=directory)
    assert check(network) == 0
    assert ios_tf.tune(directory, warmup_runs=0, runs=1, sample_count=1).schedules
    assert check(network) == 1


def test_variables_are_left_alone(cache):
    model = keras.Sequential([keras.Input((9, 9, 3)), layers.Conv2D(4, 3)])
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    before = counts()
    function = tf.function(lambda x: model(x, training=False))
    ops = gh.executed_ops(function, tf.constant(gh.random_array(1, 9, 9, 3)))
    assert ops["IosRegion"] == 0
    assert change(before) == {"graphs_not_frozen": 1}
    assert files(cache) == []
    assert Reason.GRAPHS_NOT_FROZEN in [
        one.reason for one in ios_tf.status().decisions()
    ]


def test_disable_and_enable_again(cache, network):
    ios_tf.disable()
    function = gh.as_function(network)
    images = tf.constant(IMAGES)
    assert gh.executed_ops(function, images)["IosRegion"] == 0
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    assert gh.executed_ops(function, images)["IosRegion"] == 1
    ios_tf.disable()
    assert not ios_tf.status().enabled
    assert gh.executed_ops(function, images)["IosRegion"] == 0
    ops = gh.executed_ops(gh.as_function(network), images)
    assert ops["IosRegion"] == 0
    assert gh.convolutions(ops)
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    assert gh.executed_ops(gh.as_function(network), images)["IosRegion"] == 1


@pytest.fixture
def options():
    """A function that sets TensorFlow's options; restores them afterwards."""
    before = tf.config.optimizer.get_experimental_options()
    yield tf.config.optimizer.set_experimental_options
    for name in tf.config.optimizer.get_experimental_options().keys() - before.keys():
        before[name] = True
    tf.config.optimizer.set_experimental_options(before)


def test_status_names_passes_that_cannot_be_switched_off(options):
    """The plugin runs some of TensorFlow's passes even if an option switches them off.

    These passes stop if the option use_plugin_optimizers is also off.
    """

    def fused(function):
        executed = gh.executed_ops(tf.function(function), tf.ones((1, 8, 8, 3)))
        return any("FusedConv2D" in op for op in executed)

    def convolve(x):
        return tf.nn.relu(
            tf.nn.bias_add(
                tf.nn.conv2d(x, tf.ones((3, 3, 3, 4)), 1, "SAME"), tf.ones(4)
            )
        )

    assert ios_tf.status().not_off == []
    options({"remapping": False, "layout_optimizer": True})
    assert ios_tf.status().not_off == ["remapping"]
    (decision,) = (
        one
        for one in ios_tf.status().decisions()
        if one.reason is Reason.PASSES_STAY_ON
    )
    assert "remapping" in decision.sentence
    assert fused(convolve)
    options({"use_plugin_optimizers": False})
    assert ios_tf.status().not_off == []
    assert not fused(convolve)


def test_unloading_models_in_between(cache, network):
    ios_tf.enable(cache_dir=cache, on_miss="greedy")
    for _ in range(5):
        function = gh.as_function(network)
        function(tf.constant(IMAGES))
        del function
        gc.collect()
    assert check(network) == 1


def run_session(graph: gh.Graph, config, images) -> tuple[list[np.ndarray], list]:
    """Runs a session; gives its results and the nodes that it executes."""
    with tf.Graph().as_default() as g:
        tf.import_graph_def(graph.graph_def, name="")
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        metadata = tf.compat.v1.RunMetadata()
        with tf.compat.v1.Session(graph=g, config=config) as session:
            found = session.run(
                list(graph.outputs),
                {graph.inputs[0] + ":0": images},
                options=options,
                run_metadata=metadata,
            )
    return found, [n for g in metadata.partition_graphs for n in g.node]


@pytest.mark.parametrize("on_miss", ["skip", "greedy", "search"])
def test_session_config(cache, network, on_miss):
    config = ios_tf.session_config(cache_dir=cache, on_miss=on_miss, **FAST)
    found, nodes = run_session(network, config, IMAGES)
    gh.assert_equal(found, gh.run(network, IMAGES))
    assert sum(map(gh.runs_on_the_engine, nodes)) == (on_miss != "skip")
    if on_miss == "skip":
        assert files(cache)[0].startswith("pending/")
    # Sessions without this configuration are unchanged.
    _, nodes = run_session(network, None, IMAGES)
    assert "IosRegion" not in [node.op for node in nodes]


@pytest.mark.parametrize("fed", ["size", "number", None])
def test_what_a_session_feeds_is_no_constant(cache, fed):
    """A fed tensor is not treated as a constant even if it has a value in the graph."""
    weights = gh.random_array(3, 3, 3, 4), gh.random_array(3, 3, 4, 5)
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3])
        size = tf.identity(tf.constant([8, 8], name="number"), "size")
        y = tf.nn.conv2d(x, weights[0], 1, "SAME")
        y = tf.compat.v1.image.resize_nearest_neighbor(y, size)
        y = tf.nn.conv2d(y, weights[1], 1, "SAME")
    config = ios_tf.session_config(cache_dir=cache, on_miss="greedy")
    feeds = {x: gh.random_array(2, 16, 16, 3)}
    if fed:
        feeds[graph.get_tensor_by_name(f"{fed}:0")] = np.int32([12, 10])
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        found = session.run(y, feeds)
    with tf.compat.v1.Session(graph=graph) as session:
        expected = session.run(y, feeds)
    assert expected.shape == (2, *((12, 10) if fed else (8, 8)), 5)
    gh.assert_equal([found], [expected])


def test_session_config_without_the_plugin(cache, network):
    config = ios_tf.session_config(cache_dir=cache, on_miss="greedy")
    config.graph_options.rewrite_options.use_plugin_optimizers = 2  # OFF
    found, _ = run_session(network, config, IMAGES)
    gh.assert_equal(found, gh.run(network, IMAGES))


@pytest.mark.parametrize(
    "arguments",
    [
        {"on_miss": "guess"},
        {"batch_size": 0},
        {"batch_size": "1"},
        {"max_groups": -1},
        {"cache_dir": __file__},
    ],
)
def test_bad_arguments(cache, arguments):
    for function in (ios_tf.enable, ios_tf.session_config):
        with pytest.raises(ios_tf.UserError) as error:
            function(**{"cache_dir": cache, **arguments})
        assert "\n" not in str(error.value)


def spoil(
    cache: str, network: gh.Graph, content: bytes | Callable[[str], None]
) -> list[str]:
    """Fills the cache; replaces each file by `content` or by what `content` makes."""
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    check(network)
    paths = [os.path.join(cache, name) for name in files(cache)]
    for path in paths:
        os.remove(path)
        if callable(content):
            content(path)
            continue
        with open(path, "wb") as file:
            file.write(content)
    ios_tf.disable()
    return paths


NOT_SCHEDULES = {
    "empty": b"",
    "truncated": b'{"version": 1, "signature": "',
    "not json": b"\xff\xfe\x00\x01",
    "another version": b'{"version": 9, "stages": []}',
    "no stages": b'{"version": 1}',
    "of another block": b'{"version": 1, "signature": "ab", "stages": []}',
    "deep": b"[" * 200_000,
    "a deep version": b'{"version": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a deep member": b'{"version": 1, "x": ' + b"[" * 99 + b"]" * 99 + b"}",
    "large": b'{"version": 1, "stages": []' + b" " * 2**24 + b"}",
    "a directory": os.mkdir,
    "a named pipe": os.mkfifo,  # without a writer
    "a device": lambda path: os.symlink("/dev/zero", path),
    "a link out of the cache": lambda path: os.symlink("/etc/passwd", path),
    "a link to itself": lambda path: os.symlink(path, path),
}


@pytest.mark.parametrize("name", NOT_SCHEDULES)
def test_what_is_no_schedule_is_ignored(cache, network, name):
    paths = spoil(cache, network, NOT_SCHEDULES[name])
    ios_tf.enable(cache_dir=cache)
    before = counts()
    assert check(network) == 0
    assert check(network) == 0
    found = change(before)
    assert found["warnings"] == len(paths)  # once per file
    assert found["blocks_missed"] == 2 * len(paths)


def test_links_inside_of_the_cache_are_followed(cache, network):
    """Links inside the cache work, because orchestrators mount files with them."""
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    assert check(network) > 0
    ios_tf.disable()
    os.mkdir(os.path.join(cache, "..data"))
    for name in files(cache):
        if name.endswith(".json"):
            target = os.path.join(cache, "..data", os.path.basename(name))
            os.rename(os.path.join(cache, name), target)
            os.symlink(target, os.path.join(cache, name))
    ios_tf.enable(cache_dir=cache)
    before = counts()
    assert check(network) > 0
    assert "warnings" not in change(before)


def test_nothing_is_written_through_a_link_out_of_the_cache(cache, network, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.makedirs(cache, exist_ok=True)
    os.symlink(elsewhere, os.path.join(cache, "pending"))
    os.symlink(elsewhere, os.path.join(cache, plugin.device_fingerprint("cpu")))
    ios_tf.enable(cache_dir=cache)
    assert check(network) == 0
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    check(network)
    assert list(elsewhere.iterdir()) == []


def damage_order(schedule):
    schedule["stages"].reverse()


def damage_operator(schedule):
    schedule["stages"][0]["groups"][0][0] = 99


def damage_signature(schedule):
    schedule["signature"] = "0" * 64


def damage_missing(schedule):
    del schedule["stages"][-1]


def damage_merge(schedule):
    every = [op for s in schedule["stages"] for g in s["groups"] for op in g]
    schedule["stages"] = [{"strategy": "merge", "groups": [every]}]


def damage_overflow(schedule):
    schedule["stages"][0]["groups"][0][0] = 2**40 + 7


@pytest.mark.parametrize(
    "damage",
    [
        damage_order,
        damage_operator,
        damage_signature,
        damage_missing,
        damage_merge,
        damage_overflow,
    ],
)
def test_a_schedule_that_is_not_valid_is_ignored(cache, network, damage):
    ios_tf.enable(cache_dir=cache, on_miss="search", **FAST)
    check(network)
    for name in files(cache):
        path = os.path.join(cache, name)
        with open(path) as file:
            schedule = json.load(file)
        damage(schedule)
        with open(path, "w") as file:
            json.dump(schedule, file)
    ios_tf.enable(cache_dir=cache)
    assert check(network) == 0


# A frozen network, and its result from TensorFlow alone.
PROCESS = """
import os, sys
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants

filters = tf.random.stateless_normal([3, 3, 4, 4], [1, 2])
def network(x):
    x = tf.nn.conv2d(x, filters, 1, "SAME")
    a = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
    b = tf.nn.conv2d(x, filters[:1, :1], 1, "SAME")
    return a + tf.nn.conv2d(b, filters, 1, "SAME")

concrete = tf.function(network).get_concrete_function(tf.TensorSpec([1, 8, 8, 4]))
frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
def load():
    return wrap_function.function_from_graph_def(
        frozen.graph.as_graph_def(),
        [t.name for t in frozen.inputs], [t.name for t in frozen.outputs])
images = tf.random.stateless_normal([1, 8, 8, 4], [3, 4])
def result(function=None):
    return (function or load())(images)[0].numpy()
"""


def test_import_after_tensorflow_has_run_functions(tmp_path):
    code = (
        PROCESS
        + f"""
function = load()
expected = result(function)
import ios_tf
import ios_tf
np.testing.assert_allclose(result(function), expected, atol=1e-4)
ios_tf.enable(cache_dir={str(tmp_path)!r}, on_miss="greedy")
np.testing.assert_allclose(result(function), expected, atol=1e-4)
assert ios_tf.status().counts["regions"] == 1, ios_tf.status()
"""
    )
    assert gh.warnings_of(code) == []


def test_fork(tmp_path):
    # TensorFlow's threads do not survive a fork, so the process forks before it runs
    # anything.
    code = (
        f"""
import ios_tf
import os, sys
import tensorflow
ios_tf.enable(cache_dir={str(tmp_path)!r}, on_miss="search", max_groups=2,
              max_group_size=2, progress=False)
child = os.fork()
"""
        + PROCESS
        + """
result()
assert ios_tf.status().counts["blocks_searched"] + ios_tf.status().counts[
    "blocks_cached"] >= 1, ios_tf.status()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""
    )
    run_python("-c", code, TF_CPP_MIN_LOG_LEVEL="1")


def test_without_the_library_one_line_says_so(tmp_path, monkeypatch, caplog, network):
    monkeypatch.setattr(plugin, "LIBRARIES", tmp_path)
    monkeypatch.setattr(plugin, "_ops", None)
    with caplog.at_level(logging.WARNING), undoing_enable():
        found = ios_tf.enable(cache_dir=str(tmp_path))
        (record,) = caplog.records
        assert "\n" not in record.getMessage()
        assert "not built" in record.getMessage()
        assert record.getMessage().endswith(f"[{Reason.NO_LIBRARY.code}]")
        assert not found.enabled
        assert "not built" in found.problem
        assert "not built" in str(found)
        config = ios_tf.session_config(cache_dir=str(tmp_path))
        assert len(caplog.records) == 2
    gh.assert_equal(run_session(network, config, IMAGES)[0], gh.run(network, IMAGES))


def test_another_tensorflow_is_one_line(tmp_path):
    code = (
        f"""
import json, pathlib
import ios_tf
from ios_tf.native import plugin
lib = pathlib.Path({str(tmp_path)!r})
(lib / "build.json").write_text(json.dumps({{"tensorflow": "2.20.1"}}))
(lib / "libios_tf_ops.so").write_text("")
plugin.LIBRARIES = lib
"""
        + PROCESS
        + """
expected = result()
ios_tf.enable()
np.testing.assert_array_equal(result(), expected)
"""
    )
    warnings = gh.warnings_of(code, run_python)
    # One line comes from the import, the other from enable.
    assert len(warnings) == 2
    assert all("built for TensorFlow 2.20.1" in line for line in warnings)


UNWRITABLE = {
    "no directory": "cache = '/proc/ios_tf_cache'\n",
    # Files can be created, but cannot hold any data.
    "full disk": """
import resource
cache = {directory!r}
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
""",
    "read only": """
cache = {directory!r}
os.makedirs(cache)
open(os.path.join(cache, "pending"), "w").close()
""",
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, name):
    directory = str(tmp_path / "cache")
    code = (
        PROCESS
        + UNWRITABLE[name].format(directory=directory)
        + """
expected = result()
import ios_tf
ios_tf.enable(cache_dir=cache)
for _ in range(3):
    np.testing.assert_allclose(result(), expected, atol=1e-4)
counts = ios_tf.status().counts
assert counts["blocks_missed"] >= 3 and counts["warnings"] == 1, counts
"""
    )
    (line,) = gh.warnings_of(code)
    assert line.endswith(f"[{Reason.CACHE_NOT_WRITTEN.code}]")
    assert (directory if name != "no directory" else "/proc/ios_tf_cache") in line
    left = os.listdir(directory) if os.path.isdir(directory) else []
    assert not any(n.endswith(".tmp") for n in left)


def test_a_bad_file_is_named_once(tmp_path):
    code = (
        PROCESS
        + f"""
import ios_tf
cache = {str(tmp_path)!r}
ios_tf.enable(cache_dir=cache)
expected = result()
ios_tf.tune(cache, warmup_runs=0, runs=1, sample_count=1)
(path,) = [os.path.join(where, name) for where, _, names in os.walk(cache)
           for name in names if name.endswith(".json")]
print(path)
with open(path, "r+") as file:
    file.truncate(40)
for _ in range(3):
    np.testing.assert_allclose(result(), expected, atol=1e-4)
"""
    )
    done = run_prepared("-c", code, TF_CPP_MIN_LOG_LEVEL="1")
    (line,) = [line for line in done.stderr.splitlines() if "ios_tf" in line]
    assert done.stdout.strip() in line
    assert line.endswith(f"[{Reason.CACHE_FILE_IGNORED.code}]")


def test_a_search_that_fails_is_one_line(tmp_path):
    code = (
        PROCESS
        + f"""
import ios_tf
from ios_tf.tuning import on_the_fly
expected = result()
on_the_fly.BlockTuner.tune = lambda *arguments: 1 / 0
ios_tf.enable(cache_dir={str(tmp_path)!r}, on_miss="search", progress=False)
np.testing.assert_allclose(result(), expected, atol=1e-4)
"""
    )
    (line,) = gh.warnings_of(code)
    assert line.endswith(f"[{Reason.SEARCH_FAILED.code}]")


def test_the_example():
    example = Path(__file__).parents[2] / "examples" / "enable_in_service.py"
    output = run_prepared(example, "MobileNet").stdout
    assert "graphs: 0 converted, 1 with schedules from the cache" in output
    assert float(output.split("difference")[1]) < 1e-4
