"""Loads of servers: batching, several models, and new versions under load."""

import gc
import threading

import hammer
import numpy as np
import pytest
import shared
import tensorflow as tf

pytestmark = pytest.mark.usefixtures("cache")

CALLERS, CALLS, VERSIONS = 8, 40, 4
# Batches of several images may run by other algorithms than a single image.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def batched(signature):
    """The signature behind TensorFlow's batching, as a function of one array."""
    (name,) = signature.structured_input_signature[1]

    @tf.nondifferentiable_batch_function(
        num_batch_threads=2,
        max_batch_size=4,
        batch_timeout_micros=500,
        allowed_batch_sizes=[1, 2, 4],
    )
    def run(images):
        (output,) = signature(**{name: images}).values()
        return output

    function = tf.function(run)
    return lambda images: function(images).numpy()


def images_of(signature, count):
    (spec,) = signature.structured_input_signature[1].values()
    shape = [1, *spec.shape[1:]]
    random = np.random.default_rng(1)
    return [random.normal(size=shape).astype(np.float32) for _ in range(count)]


class Server:
    """Loads versions of a model, and calls the newest one."""

    def __init__(self, path):
        self._path = path
        self.swap()

    def swap(self):
        model = tf.saved_model.load(self._path)
        self._version = model, batched(model.signatures["serving_default"])

    def __call__(self, image):
        return self._version[1](image)


def test_batches_of_several_models_while_versions_change():
    """Each answer is the one that the original gives for this image alone."""
    servers, images, expected = [], [], []
    for path, original in ((shared.converted_cells(), shared.cells()),) * 2:
        signature = tf.saved_model.load(original).signatures["serving_default"]
        (name,) = signature.structured_input_signature[1]
        of_model = [tf.constant(image) for image in images_of(signature, CALLERS)]
        images.append(of_model)
        expected.append(
            [next(iter(signature(**{name: x}).values())).numpy() for x in of_model]
        )
        servers.append(Server(path))
    failures = []

    def call(caller):
        which = caller % len(servers)
        image, answer = images[which][caller], expected[which][caller]
        try:
            for _ in range(CALLS):
                np.testing.assert_allclose(servers[which](image), answer, **CLOSE)
        except BaseException as failure:
            failures.append(failure)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(CALLERS)]
    for caller in callers:
        caller.start()
    memory = []
    for _ in range(VERSIONS):
        servers[0].swap()
        gc.collect()
        memory.append(hammer.resident())
    for caller in callers:
        caller.join()
    assert not failures, failures[0]
    # Versions with equal weights share them; each one more would add over 40 MiB.
    assert memory[-1] - memory[0] < 100
