"""The four networks of the paper (its Table 2) as Keras builders.

Weights are random; a seed determines them. The statistics of batch norms are computed
from smooth images, so that activations keep their scale and outputs depend on inputs.
Random weights are sufficient, because a schedule depends on operators, shapes and
edges, but not on weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras


# Networks of keras.applications, with the height and width of their images.
_APPLICATIONS = {
    "inception_v3": ("InceptionV3", 299),
    "nasnet_a_large": ("NASNetLarge", 331),  # NASNet-A (6 @ 4032)
}
NETWORKS = (*_APPLICATIONS, "randwire", "squeezenet")


def build(
    name: str, seed: int = 0, graphs: str = "", calibrated: bool = True
) -> keras.Model:
    """One of NETWORKS with random weights.

    Args:
      name: one of NETWORKS.
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

    keras.utils.set_random_seed(seed)
    if name == "squeezenet":
        from ios_tf.models.squeezenet import squeezenet

        model = squeezenet()
    elif name == "randwire":
        from ios_tf.models.randwire import generated_graphs, randwire, read_graphs

        model = randwire(read_graphs(graphs) if graphs else generated_graphs(seed))
    else:
        application, size = _APPLICATIONS[name]
        model = getattr(keras.applications, application)(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
    if calibrated:
        from ios_tf.models.calibration import calibrate

        calibrate(model, seed)
    return model
