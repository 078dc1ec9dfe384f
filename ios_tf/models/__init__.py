"""The four networks of the paper (its Table 2) as Keras builders.

Weights are random from a seed, and batch statistics are those of smooth images, so
that activations keep their scale and outputs depend on inputs. What a schedule is
made of - operators, shapes, edges - does not depend on weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras


def _inception_v3(seed: int) -> keras.Model:
    from ios_tf.models.applications import inception_v3

    return inception_v3()


def _nasnet_a_large(seed: int) -> keras.Model:
    from ios_tf.models.applications import nasnet_a_large

    return nasnet_a_large()


def _randwire(seed: int) -> keras.Model:
    from ios_tf.models.randwire import paper_graphs, randwire

    return randwire(paper_graphs())


def _randwire_ws(seed: int) -> keras.Model:
    from ios_tf.models.randwire import generated_graphs, randwire

    return randwire(generated_graphs(seed))


def _squeezenet(seed: int) -> keras.Model:
    from ios_tf.models.squeezenet import squeezenet

    return squeezenet()


# Keras is imported when a network is built.
NETWORKS: Mapping[str, Callable[[int], keras.Model]] = {
    "inception_v3": _inception_v3,
    "nasnet_a_large": _nasnet_a_large,
    "randwire": _randwire,  # the paper's graphs
    "randwire_ws": _randwire_ws,  # graphs generated from the seed
    "squeezenet": _squeezenet,
}


def build(name: str, seed: int = 0) -> keras.Model:
    """One of NETWORKS with random weights.

    Args:
      name: a key of NETWORKS.
      seed: of the weights, of the images that give the batch statistics, and of the
        graphs of randwire_ws.

    Raises:
      KeyError: there is no such network.
    """
    import keras

    from ios_tf.models.calibration import calibrate

    make = NETWORKS[name]
    keras.utils.set_random_seed(seed)
    model = make(seed)
    calibrate(model, seed)
    return model
