"""The zoo's networks by name: keras.applications, and the hand-written ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import keras

from benchmarks.zoo import classification, detection, plain, segmentation, sequences
from benchmarks.zoo.model import Model, keras_model

_HAND_WRITTEN: tuple[Callable[[], Model], ...] = (
    segmentation.unet_transpose,
    segmentation.unet_upsampling,
    segmentation.deeplab_v3_plus,
    segmentation.fpn,
    segmentation.edsr,
    detection.yolo_v3,
    detection.yolo_csp,
    detection.ssd_nms,
    classification.googlenet_lrn,
    classification.shufflenet,
    classification.convnext,
    classification.crnn_front,
    classification.small_cnn,
    classification.se_net,
    classification.video_conv3d,
    sequences.audio_conv1d,
    sequences.wavenet,
    sequences.text_cnn,
    plain.tf_module,
    plain.tf1_graph,
)


def networks() -> dict[str, Callable[[], Model]]:
    """Returns the functions that build the networks, by name."""
    applications = {
        f"keras:{name}": functools.partial(_application, name)
        for name in sorted(dir(keras.applications))
        if name[:1].isupper() and callable(getattr(keras.applications, name))
    }
    return applications | {build.__name__: build for build in _HAND_WRITTEN}


def _application(name: str) -> Model:
    build = getattr(keras.applications, name)
    keras.utils.set_random_seed(0)
    keywords = {"weights": None}
    # Outputs are logits, because a softmax of random logits is almost constant.
    if "classifier_activation" in inspect.signature(build).parameters:
        keywords["classifier_activation"] = None
    return keras_model(build(**keywords))
