"""One converted model with schedules for several batch sizes."""

import dataclasses
import os
import re

import graph_helpers as gh
import networks
import pytest
import shared
import stock
import tensorflow as tf
from batch_sizes import Stopwatch, freeze, function_of, original, rewrite, stages, write
from keras import layers
from merges import merge_everything
from shared import FAST
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import ios_tf
from ios_tf.cli import main
from ios_tf.conversion import network_check
from ios_tf.conversion.show import converted_regions, text_of
from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.native import plugin
from ios_tf.reasons import Reason
from ios_tf.scheduler import (
    Problem,
    Pruning,
    Schedule,
    greedy_schedule,
    sequential_schedule,
)
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.cache import ScheduleCache
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings

pytestmark = pytest.mark.usefixtures("cache")

# Each batch size and the scheduled size that it must use: the nearest by ratio.
NEAREST = {1: 1, 2: 1, 5: 8, 8: 8, 9: 8, 32: 32}


@pytest.fixture(scope="module")
def network(saved):
    return original(saved)


def is_first_block(problem: Problem) -> bool:
    """True for the first block: only its convolutions read 8 channels."""
    return problem.block["inputs"][0][-1] == 8


def merge_in_the_first_block(problem: Problem) -> Schedule:
    return (merge_everything if is_first_block(problem) else greedy_schedule)(problem)


DIFFERENT = {1: merge_everything, 8: greedy_schedule, 32: sequential_schedule}


def regions_run(directory) -> dict[int, int]:
    """Each batch size and the size of its schedule, from TensorFlow's profile."""
    found = {}
    for path in directory.glob("**/*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            for event in (e for line in plane.lines for e in line.events):
                if "IosRegion" in plane.event_metadata[event.metadata_id].name:
                    stats = {
                        plane.stat_metadata[s.metadata_id].name: s.int64_value
                        for s in event.stats
                    }
                    found[stats["batch_size"]] = stats["scheduled_for"]
    return found


def test_every_batch_runs_by_the_nearest_schedule(network, saved, tmp_path):
    model = write(saved, DIFFERENT, str(tmp_path / "converted"))
    function = tf.saved_model.load(model).signatures["serving_default"]
    images = {batch: networks.smooth_images(batch, 17, seed=7) for batch in NEAREST}
    with tf.profiler.experimental.Profile(str(tmp_path / "profile")):
        found = {batch: function(images[batch])["output_0"] for batch in NEAREST}
    assert regions_run(tmp_path / "profile") == NEAREST
    for batch, logits in found.items():
        expected = network(images[batch]).numpy()
        assert networks.relative_difference(logits.numpy(), expected) < 1e-4
    assert not any("Conv2D" in op for op in gh.executed_ops(function, images[32]))


def test_stock_tensorflow_runs_it(network, saved, tmp_path):
    model = write(saved, DIFFERENT, str(tmp_path / "converted"))
    images = networks.smooth_images(9, 17, seed=7)
    found = stock.serve(model, images, tmp_path)
    expected = network(images).numpy()
    assert networks.relative_difference(found, expected) < 1e-4


def ops(frozen: frozen_graphs.FrozenSignature) -> list[str]:
    return [node.op for node in frozen.graph_def.node]


def weight_bytes(frozen: frozen_graphs.FrozenSignature) -> int:
    return sum(
        tf.make_ndarray(node.attr["value"].tensor).nbytes
        for node in frozen.graph_def.node
        if node.op == "Const"
    )


def test_merges_that_sizes_do_not_share_stay_out_of_the_graph(saved):
    frozen = freeze(saved)
    different = rewrite(frozen, DIFFERENT)
    assert stages(different) == {
        1: ["merge 3", "merge 3"],
        8: ["concurrent 3", "concurrent 3"],
        32: [],
    }
    assert ops(different).count("Conv2D") == ops(frozen).count("Conv2D") == 9
    one_size = rewrite(frozen, {1: sequential_schedule})
    assert weight_bytes(different) == weight_bytes(one_size)


def test_merges_that_sizes_share_are_in_the_graph(saved, network):
    frozen = rewrite(freeze(saved), {1: merge_everything, 8: merge_in_the_first_block})
    # A merged convolution and three slices that read its result.
    assert stages(frozen) == {
        1: ["concurrent 4", "merge 3"],
        8: ["concurrent 4", "concurrent 3"],
    }
    assert gh.count_merges(frozen.graph_def) == 1
    assert ops(frozen).count("Conv2D") == 7
    images = networks.smooth_images(3, 17, seed=7)
    found = function_of(frozen)(images=images)["output_0"].numpy()
    assert networks.relative_difference(found, network(images).numpy()) < 1e-4


def test_one_batch_size_has_all_its_merges_in_the_graph(saved):
    frozen = rewrite(freeze(saved), {8: merge_everything})
    assert stages(frozen) == {8: ["concurrent 4", "concurrent 4"]}
    assert gh.count_merges(frozen.graph_def) == 2


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ({1: [2, 1], 8: [2, 1]}, {1: ["merge 3"] * 2, 8: ["concurrent 3"] * 2}),
        ({1: [1, 2], 8: [2, 1]}, {1: [], 8: ["concurrent 3"] * 2}),
        ({1: [1, 2], 8: [1, 2]}, {1: [], 8: []}),
    ],
)
def test_a_size_whose_schedules_are_slower_is_sequential(latencies, expected, saved):
    frozen = freeze(saved)
    collected = {size: graph_optimizer.collect(frozen, size) for size in (1, 8)}
    schedules = {
        signature: DIFFERENT[size](problem)
        for size, network in collected.items()
        for signature, problem in network.problems.items()
    }
    searcher = Searcher(Stopwatch(latencies), SearchSettings())
    checked = network_check.check(frozen, collected, schedules, searcher)
    graph_def = graph_optimizer.rewrite(frozen, checked.schedules, list(collected))
    assert stages(dataclasses.replace(frozen, graph_def=graph_def)) == expected
    for size, (sequential_ms, scheduled_ms) in latencies.items():
        found = checked.sizes[size]
        assert found.sequential_ms == sequential_ms
        assert found.scheduled_ms == min(sequential_ms, scheduled_ms)
        assert found.fell_back == (scheduled_ms > sequential_ms)


def fill_cache(directory: str, source: str, forms) -> None:
    """Stores schedules under strategy "greedy", which uses whatever is stored."""
    cache = ScheduleCache(directory, plugin.device_fingerprint("cpu"))
    pruning = Pruning(FAST["max_group_size"], FAST["max_groups"])
    settings = SearchSettings("greedy", pruning, algorithms=allowed("cpu"))
    latencies = {"latency_ms": 1.0, "sequential_ms": 1.0}
    for size, form in forms.items():
        for problem in graph_optimizer.collect(freeze(source), size).problems.values():
            schedule = dataclasses.replace(form(problem), metadata=latencies)
            cache.put(schedule, settings)


def test_conversion_for_several_batch_sizes(cache, network, saved, tmp_path):
    fill_cache(cache, saved, {1: merge_everything, 8: greedy_schedule})
    output = str(tmp_path / "converted")
    report = ios_tf.convert(saved, output, batch_size=[8, 1], strategy="greedy", **FAST)
    assert report.cached_blocks == report.different_blocks == 8
    assert (report.operators, report.blocks) == (13, 4)
    assert list(report.sizes) == [1, 8]
    assert [(s.merged, s.concurrent) for s in report.sizes.values()] == [(2, 0), (0, 2)]
    assert all(s.sequential_ms > 0 < s.scheduled_ms for s in report.sizes.values())
    assert re.search(r"^batch size +1 +8$", report.table(), re.MULTILINE)
    assert re.search(r"^  merged +2 +0$", report.table(), re.MULTILINE)

    signature = tf.saved_model.load(output).signatures["serving_default"]
    images = networks.smooth_images(3, 17, seed=7)
    with tf.profiler.experimental.Profile(str(tmp_path / "profile")):
        found = signature(images)["output_0"].numpy()
    assert regions_run(tmp_path / "profile") == {3: 8}
    assert networks.relative_difference(found, network(images).numpy()) < 1e-4

    shown = text_of(converted_regions(output))
    one, eight = shown.index("batch size 1: "), shown.index("batch size 8: ")
    assert "  merge" in shown[one:eight] and " + " in shown[one:eight]
    assert "  merge" not in shown[eight:]


def test_equal_schedules_are_shown_once(saved, tmp_path):
    forms = {1: greedy_schedule, 8: greedy_schedule, 32: sequential_schedule}
    shown = text_of(converted_regions(write(saved, forms, str(tmp_path / "converted"))))
    assert re.findall(r"batch size (.*): \d+ stages", shown) == ["1, 8", "32"]


def save_function(path: str, *shapes, function) -> str:
    """Saves a model without variables; gives its path."""
    module = tf.Module()
    module.function = tf.function(
        function, input_signature=[tf.TensorSpec(shape, tf.float32) for shape in shapes]
    )
    tf.saved_model.save(module, path, signatures=module.function)
    return path


def branches(x):
    filters = tf.constant(gh.random_array(3, 3, 4, 4))
    parts = [tf.nn.conv2d(x, filters * k, 1, "SAME") for k in (1, 2)]
    return {"y": tf.concat(parts, 3)}


def test_image_sizes_that_a_model_leaves_open(tmp_path):
    model = save_function(str(tmp_path / "m"), [None, None, None, 4], function=branches)
    output = str(tmp_path / "out")
    for given, size in (((40, 56), (40, 56)), (48, (48, 48))):
        report = ios_tf.convert(
            model, output, image_size=given, strategy="greedy", overwrite=True, **FAST
        )
        assert report.image_size == size
        row = r"^image size +{} x {} \(see --image_size\)$".format(*size)
        assert re.search(row, report.table(), re.MULTILINE)
        frozen = dataclasses.replace(freeze(model), image_size=size)
        (problem,) = graph_optimizer.collect(frozen, 1).problems.values()
        assert problem.block["inputs"] == [[1, *size, 4]]
    faster = tf.saved_model.load(output).signatures["serving_default"]
    for shape in ((1, 48, 48, 4), (2, 33, 41, 4)):
        x = tf.random.stateless_normal(shape, [1, 2])
        expected = branches(x)["y"].numpy()
        assert networks.relative_difference(faster(x)["y"].numpy(), expected) < 1e-5


@pytest.mark.parametrize(
    ("shape", "size", "notes"),
    [
        ([None, 9, 9, 4], (20, 30), ["no input with an open height or width"]),
        ([None, 20, 30, 4], (20, 30), []),
        ([None, 9, 9, 4], 224, []),
        ([None, None, 9, 4], (20, 9), []),
        ([None, None, None, 4], (20, 30), []),
    ],
)
def test_an_image_size_that_has_no_effect(shape, size, notes):
    function = tf.function(branches, input_signature=[tf.TensorSpec(shape, name="x")])
    report = ios_tf.optimize(
        function, strategy="greedy", image_size=size, **FAST
    ).report
    found = [one for one in report.decisions if one.reason is Reason.OTHER_IMAGE_SIZE]
    assert len(found) == len(notes)
    for decision, text in zip(found, notes, strict=True):
        assert text in decision.sentence and "--image_size=20,30" in decision.sentence


def test_an_image_size_that_the_model_cannot_process():
    weights = gh.random_array(64 * 64 * 8, 2)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 4], name="x")])
    def only_64(x):
        return tf.reshape(branches(x)["y"], [tf.shape(x)[0], -1]) @ weights

    report = ios_tf.optimize(only_64, strategy="greedy", image_size=20, **FAST).report
    assert report.image_size == (64, 64)
    (note,) = (one for one in report.decisions if one.reason is Reason.OTHER_IMAGE_SIZE)
    assert "--image_size=20,20 has no effect" in note.sentence
    assert "64 x 64" in note.sentence


@pytest.mark.parametrize("size", [0, (1, 2, 3), "224", (32, -1), (32, 1.5)])
def test_what_is_no_image_size(size, saved, tmp_path):
    with pytest.raises(ios_tf.UserError, match=r"^image_size must be"):
        ios_tf.convert(saved, str(tmp_path / "out"), image_size=size)


def test_a_fixed_batch_size(tmp_path):
    model = save_function(str(tmp_path / "m"), [4, 9, 9, 4], function=branches)
    output = str(tmp_path / "out")
    with pytest.raises(ios_tf.UserError, match=r"batch size 4,.* batch sizes 1, 4"):
        ios_tf.convert(model, output, batch_size=[1, 4], strategy="greedy", **FAST)
    assert not os.path.exists(output)
    for size, decisions in ((4, 0), (1, 1)):
        report = ios_tf.convert(
            model, output, batch_size=size, strategy="greedy", overwrite=True, **FAST
        )
        assert shared.reasons(report).count(Reason.FIXED_BATCH_SIZE) == decisions
    (program,) = graph_optimizer.lowered_programs(freeze(output))
    assert [entry["batch_size"] for entry in program["schedules"]] == [4]


def _frames_last(video):
    return tf.nn.conv2d(tf.transpose(video, [3, 0, 1, 2]), WEIGHTS, 1, "SAME")


def _made_of_a_number(seed, n):
    noise = tf.random.stateless_normal(tf.stack([n, 20, 20, 3]), seed)
    return tf.nn.conv2d(noise, WEIGHTS, 1, "SAME")


WEIGHTS = gh.random_array(3, 3, 3, 6)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (_frames_last, [tf.TensorSpec([20, 12, 3, None])]),
        (_frames_last, [tf.TensorSpec([12, 12, 3, None])]),
        (
            _made_of_a_number,
            [tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.int32)],
        ),
    ],
)
def test_numbers_of_images_that_vary_are_not_called_fixed(function, specs):
    """The number of images follows another dimension or an input's value."""
    varying = tf.function(function, input_signature=specs)
    why = "has no input whose first dimension is open"
    with pytest.raises(ios_tf.UserError, match=why) as error:
        ios_tf.optimize(varying, (1, 4), strategy="greedy", image_size=20, **FAST)
    report = ios_tf.optimize(
        varying, 16, strategy="greedy", image_size=20, **FAST
    ).report
    # There is no note about the batch size if an input's value gives the number of
    # images, because every batch size is then possible.
    fixed = [one for one in report.decisions if one.reason is Reason.FIXED_BATCH_SIZE]
    assert len(fixed) == (function is _frames_last)
    assert all("20 images" in one.sentence for one in fixed)
    for text in (str(error.value), *report.notes):
        assert "every call" not in text and "fixed" not in text


def test_a_signature_of_a_fixed_batch_size_beside_another(tmp_path):
    module = tf.Module()
    spec = [tf.TensorSpec([n, 9, 9, 4], name="x") for n in (None, 3)]
    signatures = {
        name: tf.function(lambda x: branches(x)).get_concrete_function(one)
        for name, one in zip(("any", "three"), spec, strict=True)
    }
    model, output = str(tmp_path / "m"), str(tmp_path / "out")
    tf.saved_model.save(module, model, signatures=signatures)
    report = ios_tf.convert(model, output, batch_size=[1, 8], strategy="greedy", **FAST)
    (fixed,) = (
        one for one in report.decisions if one.reason is Reason.FIXED_BATCH_SIZE
    )
    assert "'three'" in fixed.sentence and "batch size 3" in fixed.sentence
    functions = [tf.saved_model.load(path).signatures for path in (model, output)]
    for name, batches in (("any", (1, 2, 8)), ("three", (3,))):
        (program,) = graph_optimizer.lowered_programs(
            frozen_graphs.freeze(name, functions[1][name])
        )
        scheduled = [entry["batch_size"] for entry in program["schedules"]]
        assert scheduled == ([3] if name == "three" else [1, 8])
        for batch in batches:
            images = tf.constant(gh.random_array(batch, 9, 9, 4))
            expected, found = (f[name](x=images) for f in functions)
            gh.assert_equal([found["y"].numpy()], [expected["y"].numpy()])


def test_images_that_are_cut_into_two(tmp_path):
    # Each image is cut into two, so convolutions process twice as many images.
    def function(x):
        return branches(tf.reshape(x, [-1, 9, 9, 4]))

    model = save_function(str(tmp_path / "m"), [None, 18, 9, 4], function=function)
    output = str(tmp_path / "out")
    ios_tf.convert(model, output, batch_size=[1, 8], strategy="greedy", **FAST)
    (program,) = graph_optimizer.lowered_programs(freeze(output))
    assert [entry["batch_size"] for entry in program["schedules"]] == [2, 16]


def test_images_that_are_put_together_to_one(tmp_path):
    # Convolutions process one image, whose height grows with the batch.
    def function(x):
        return branches(tf.reshape(x, [1, -1, 9, 4]))

    model = save_function(str(tmp_path / "m"), [None, 9, 9, 4], function=function)
    output = str(tmp_path / "out")
    ios_tf.convert(model, output, batch_size=[1, 8], strategy="greedy", **FAST)
    (program,) = graph_optimizer.lowered_programs(freeze(output))
    assert [entry["batch_size"] for entry in program["schedules"]] == [1]


def test_positions_are_added_to_images_of_every_batch(tmp_path):
    # The constant has the shape of one image, and is added at every batch size.
    positions = gh.random_array(1, 9, 9, 4, seed=1)

    def function(x):
        return branches(x + positions)

    model = save_function(str(tmp_path / "m"), [None, 9, 9, 4], function=function)
    output = str(tmp_path / "out")
    ios_tf.convert(model, output, batch_size=[1, 8], strategy="greedy", **FAST)
    (program,) = graph_optimizer.lowered_programs(freeze(output))
    assert [entry["batch_size"] for entry in program["schedules"]] == [1, 8]
    expected, found = (
        tf.saved_model.load(path).signatures["serving_default"]
        for path in (model, output)
    )
    for batch in (0, 1, 2, 8, 9):
        images = tf.constant(gh.random_array(batch, 9, 9, 4))
        gh.assert_equal([found(images)["y"].numpy()], [expected(images)["y"].numpy()])


@pytest.mark.parametrize("sizes", [(2, 5), (6, 2, 5)], ids=str)
def test_another_network_at_one_of_the_sizes(sizes, tmp_path):
    # With a batch of two, no image is left for the second branch.
    def function(x):
        return {"all": branches(x)["y"], "rest": branches(x[2:])["y"]}

    model = save_function(str(tmp_path / "m"), [None, 9, 9, 4], function=function)
    output = str(tmp_path / "out")
    report = ios_tf.convert(model, output, batch_size=sizes, strategy="greedy", **FAST)
    rest = sorted(set(sizes) - {2})
    (other,) = (one for one in report.decisions if one.reason is Reason.OTHER_NETWORK)
    assert f"batch size 2 than at {', '.join(map(str, rest))}, " in other.sentence
    programs = graph_optimizer.lowered_programs(freeze(output))
    scheduled = [[e["batch_size"] for e in p["schedules"]] for p in programs]
    assert sorted(scheduled) == sorted([rest, [size - 2 for size in rest]])
    functions = [
        tf.saved_model.load(path).signatures["serving_default"]
        for path in (model, output)
    ]
    for batch in (1, 2, 3, 5, 7):
        images = tf.constant(gh.random_array(batch, 9, 9, 4))
        expected, found = (function(images) for function in functions)
        for name, wanted in expected.items():
            gh.assert_equal([found[name].numpy()], [wanted.numpy()])


@pytest.mark.parametrize(
    "bad",
    [0, [], [1, -8], [1, 8, 1], "1,8", [1, "8"], [1.0], None, True, 2**70],
    ids=str,
)
def test_bad_batch_sizes(bad, saved, tmp_path):
    with pytest.raises(ios_tf.UserError, match="batch_size") as error:
        ios_tf.convert(saved, tmp_path / "out", batch_size=bad)
    assert "\n" not in str(error.value)
    assert not os.path.exists(tmp_path / "out")


def test_a_graph_runs_with_one_batch_size_in_place_of_unknown_ones():
    graph = gh.sequential(layers.Conv2D(5, 3), shape=(9, 9, 4))
    with pytest.raises(tf.errors.OpError, match="batch_size must be a single number"):
        gh.lower(graph, batch_size=[1, 8])


def test_command_line(cache, saved, tmp_path, capsys):
    fill_cache(cache, saved, {1: merge_everything, 8: greedy_schedule})
    output = str(tmp_path / "converted")
    fast = [f"--{key}={value}" for key, value in FAST.items() if key != "keep_slower"]
    arguments = ["convert", saved, output, "--batch_size=1,8", "--strategy=greedy"]
    assert main.main(arguments + fast) == 0
    assert re.search(r"^batch size +1 +8$", capsys.readouterr().out, re.MULTILINE)
