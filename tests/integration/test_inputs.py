"""Arguments of signatures: random ones, and those that a user gives."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

from ios_tf import UserError
from ios_tf.conversion.made_up_inputs import Guess, made_up_inputs
from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.model.inputs import (
    accepted_inputs,
    example_inputs,
    image_size_of,
    outputs_of,
    parse_inputs,
)
from ios_tf.model.inputs import (
    open_sizes as open_sizes_of,
)


def signature(**specs: tf.TensorSpec):
    """An object with the signature of a loaded SavedModel's function."""
    return types.SimpleNamespace(structured_input_signature=((), specs))


MODEL = signature(
    image=tf.TensorSpec([None, None, None, 3], tf.float32),
    ids=tf.TensorSpec([None, 4], tf.int64),
    flag=tf.TensorSpec([], tf.bool),
)


def test_shapes_and_files_take_the_place_of_random_inputs(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.int32))
    given = parse_inputs(["image=2,8,9,3", f"ids={tmp_path / 'ids.npy'}"])
    inputs = example_inputs(MODEL, 1, given)
    assert list(inputs) == ["image", "ids", "flag"]
    assert inputs["image"].shape == [2, 8, 9, 3]
    assert len(np.unique(inputs["image"])) > 400
    assert inputs["ids"].dtype == tf.int64
    np.testing.assert_array_equal(inputs["ids"], [[3, 1, 4, 1], [5, 9, 2, 6]])
    assert inputs["flag"].dtype == tf.bool


def test_sizes_that_are_left_open():
    open_sizes = MODEL.structured_input_signature[1]
    image = {"image": tf.zeros([2, 8, 9, 3])}
    assert image_size_of({"image": open_sizes["image"]}, image) == (8, 9)
    wide = {"x": tf.TensorSpec([None, 4, None, 3])}
    assert image_size_of(wide, {"x": tf.zeros([1, 4, 7, 3])}) == (7, 7)
    sequence = {"x": tf.TensorSpec([None, None, 16]), "ids": open_sizes["ids"]}
    assert image_size_of(sequence, {"x": tf.zeros([1, 7, 16])}) == (7, 7)
    for shape, opened in (
        ([None, None, 16], {1: 1}),  # a sequence is an image of height 1
        ([None, 16, None], {2: 1}),
        ([None, None, None], {1: 0, 2: 1}),
        ([None, None, 9, 3], {1: 0}),
        ([None, 9, None, 3], {2: 1}),
        ([None, 3, 9, None], {3: 1}),
        ([None, None, None, 3], {1: 0, 2: 1}),
        ([None, 8, None, None, 3], {2: 0, 3: 1}),
        ([None, 8, 9, 3], {}),
    ):
        assert open_sizes_of(shape) == opened
    assert image_size_of({"ids": open_sizes["ids"]}, {"ids": tf.zeros([1, 4])}) == (
        224,
        224,
    )


@pytest.mark.parametrize(
    ("shape", "block_input"),
    [
        ([None, None, 3], [1, 1, 50, 3]),  # the width is a sequence's length
        ([None, None, None, 3], [1, 40, 50, 3]),
        ([None, 9, None, 3], [1, 9, 50, 3]),
        ([None, None, 9, 3], [1, 40, 9, 3]),
    ],
)
def test_schedules_and_comparisons_have_the_same_sizes(shape, block_input):
    """C++ infers the same shapes that Python compares with."""
    spec = tf.TensorSpec(shape, name="x")
    windows = np.ones([5, 3, 8] if len(shape) == 3 else [5, 5, 3, 8], np.float32)
    function = tf.function(
        lambda x: tf.nn.convolution(x, windows), input_signature=[spec]
    )
    frozen = frozen_graphs.freeze_flat("f", function.get_concrete_function())
    frozen = dataclasses.replace(frozen, image_size=(40, 50))
    (problem,) = graph_optimizer.collect(frozen, 1).problems.values()
    assert problem.block["inputs"] == [block_input]
    x = made_up_inputs({"x": spec}, 1, Guess((40, 50)))["x"]
    without_height = [block_input[0], *block_input[2:]]
    assert x.shape == (block_input if len(shape) == 4 else without_height)


def test_unknown_first_sizes_are_the_batch():
    inputs = example_inputs(signature(x=tf.TensorSpec([None, 4], tf.float16)), 7)
    assert inputs["x"].shape == [7, 4]


@pytest.mark.parametrize("values", [np.array([b"\xff\x00a", b""]), np.array(["é", ""])])
def test_strings_are_those_of_the_file(values, tmp_path):
    np.save(tmp_path / "x.npy", values)
    given = parse_inputs([f"x={tmp_path / 'x.npy'}"])
    inputs = example_inputs(signature(x=tf.TensorSpec([None], tf.string)), 1, given)
    expected = [v if isinstance(v, bytes) else v.encode() for v in values.tolist()]
    assert inputs["x"].numpy().tolist() == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["image"], "--input=image must be NAME=FILE.npy or NAME=SHAPE"),
        (["image="], "must be NAME=FILE.npy"),
        (["=1,2"], "must be NAME=FILE.npy"),
        (["image=1,-2"], "image=1,-2 must name a .npy file or give a shape"),
        (["image=a.jpg"], "image=a.jpg must name a .npy file or give a shape"),
        (["image=/nowhere.npy"], "/nowhere.npy: No such file"),
        (["ids=1,4", "ids=2,4"], "'ids' more than once"),
        (["picture=1,2"], "no input 'picture'. Its inputs are image, ids, flag"),
        (["image=1,8,8,4"], "shape .1, 8, 8, 4. does not match input .* of shape"),
        (["image=8,8,3"], "does not match"),
    ],
)
def test_bad_inputs_are_one_line(words, message):
    with pytest.raises(UserError, match=message) as error:
        example_inputs(MODEL, 1, parse_inputs(words))
    assert "\n" not in str(error.value)


def test_open_image_sizes_are_given():
    inputs = example_inputs(MODEL, 2, {}, image_size=(6, 8))
    assert inputs["image"].shape == [2, 6, 8, 3]
    assert example_inputs(MODEL, 1)["image"].shape == [1, 224, 224, 3]
    unknown = signature(x=tf.TensorSpec([None, None, None, None]))
    with pytest.raises(UserError, match=r"unknown shape .*--input=x=SHAPE"):
        example_inputs(unknown, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no array", "cannot be read"),
        (np.zeros([1, 4]), "type int64, but its file has type float64"),
        (np.zeros([1, 5], np.int64), "does not match"),
        (np.array([["a"] * 4]), "type int64, but its file has type <U1"),
        (np.array([[{}] * 4]), "cannot be read"),
    ],
)
def test_bad_files_are_one_line(content, message, tmp_path):
    path = tmp_path / "ids.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(UserError, match=message) as error:
        example_inputs(MODEL, 1, parse_inputs(["image=1,8,8,3", f"ids={path}"]))
    assert "\n" not in str(error.value)


def test_strings_need_a_file():
    with pytest.raises(UserError, match=r"not numeric\. .* --input=x=FILE\.npy"):
        example_inputs(signature(x=tf.TensorSpec([None], tf.string)), 1)


def test_indices_are_small_where_a_model_asks_for_it():
    class Function:
        structured_input_signature = (
            (),
            {"i": tf.TensorSpec([None], tf.int32), "x": tf.TensorSpec([1], tf.float32)},
        )

        def __call__(self, i, x):
            return {"y": tf.gather(tf.range(10.0), i) + x}

    inputs, outputs = accepted_inputs(Function(), 64)
    assert inputs["i"].numpy().max() == 1
    np.testing.assert_allclose(outputs["y"], inputs["i"].numpy() + inputs["x"].numpy())
    with pytest.raises(UserError, match=r"called with i int32\[1\].*--input"):
        accepted_inputs(Function(), 1, {"i": np.array([70])})


def test_a_model_that_fails_is_one_line():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "x")])
    def function(x):
        return {"y": tf.gather([1.0, 2.0], x)}

    with pytest.raises(
        UserError, match=r"called with x int32\[1\] \(.*--input"
    ) as error:
        outputs_of(function, {"x": tf.constant([7])})
    assert "\n" not in str(error.value)
