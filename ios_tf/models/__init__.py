"""The four networks of the paper (its Table 2) as Keras builders.

Weights are random; a seed determines them. The statistics of batch norms are computed
from smooth images, so that activations keep their scale and outputs depend on inputs.
Random weights are sufficient, because a schedule depends on operators, shapes and
edges, but not on weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras


def _inception_v3(seed: int, graphs: str) -> keras.Model:
    return _application("InceptionV3", 299)


def _nasnet_a_large(seed: int, graphs: str) -> keras.Model:
    """NASNet-A (6 @ 4032)."""
    return _application("NASNetLarge", 331)


def _application(name: str, size: int) -> keras.Model:
    """A network of keras.applications, images [N, size, size, 3] to logits."""
    import keras

    build = getattr(keras.applications, name)
    shape = (size, size, 3)
    return build(weights=None, input_shape=shape, classifier_activation=None)


def _randwire(seed: int, graphs: str) -> keras.Model:
    from ios_tf.models.randwire import generated_graphs, randwire, read_graphs

    return randwire(read_graphs(graphs) if graphs else generated_graphs(seed))


def _squeezenet(seed: int, graphs: str) -> keras.Model:
    from ios_tf.models.squeezenet import squeezenet

    return squeezenet()


# Keras is imported when a network is built.
NETWORKS: Mapping[str, Callable[[int, str], keras.Model]] = {
    "inception_v3": _inception_v3,
    "nasnet_a_large": _nasnet_a_large,
    "randwire": _randwire,
    "squeezenet": _squeezenet,
}


def build(
    name: str, seed: int = 0, graphs: str = "", calibrated: bool = True
) -> keras.Model:
    """One of NETWORKS with random weights.

    Args:
      name: a key of NETWORKS.
      seed: the seed of the weights, of the images from which batch statistics are
        computed, and of the graphs of randwire.
      graphs: a file with graphs for randwire (see `randwire.read_graphs`), which are
        used instead of generated ones.
      calibrated: whether to compute batch statistics, which takes seconds; without
        them, the outputs are meaningless.

    Raises:
      KeyError: the network does not exist.
    """
    import keras

    make = NETWORKS[name]
    keras.utils.set_random_seed(seed)
    model = make(seed, graphs)
    if calibrated:
        from ios_tf.models.calibration import calibrate

        calibrate(model, seed)
    return model
