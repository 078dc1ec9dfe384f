"""Networks that detect objects."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.zoo.layers import conv_norm, join, resize
from benchmarks.zoo.model import Model, keras_model
from ios_tf.models.calibration import calibrate_on, structured


def yolo_v3() -> Model:
    """Darknet-53 with LeakyReLU and three heads."""

    def conv(x, filters, kernel=3, strides=1):
        return conv_norm(x, filters, kernel, strides, "leaky_relu")

    def five(x, filters):
        for kernel in (1, 3, 1, 3, 1):
            x = conv(x, filters * (1 if kernel == 1 else 2), kernel)
        return x

    inputs = keras.Input((416, 416, 3))
    x, features = conv(inputs, 32), []
    for filters, repeats in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = conv(x, filters, 3, 2)
        for _ in range(repeats):
            x = x + conv(conv(x, filters // 2, 1), filters)
        features.append(x)
    outputs, x = [], None
    for filters, feature in zip((512, 256, 128), reversed(features), strict=False):
        if x is not None:
            feature = join(resize(conv(x, filters, 1), 2, "nearest"), feature)
        x = five(feature, filters)
        outputs.append(layers.Conv2D(255, 1)(conv(x, 2 * filters)))
    return keras_model(keras.Model(inputs, outputs))


def yolo_csp() -> Model:
    """Cross-stage partial blocks with silu, spatial pyramid pooling, two heads."""

    def conv(x, filters, kernel=3, strides=1):
        return conv_norm(x, filters, kernel, strides, "silu")

    def csp(x, filters, repeats):
        left, right = conv(x, filters // 2, 1), conv(x, filters // 2, 1)
        for _ in range(repeats):
            left = left + conv(conv(left, filters // 2, 1), filters // 2)
        return conv(join(left, right), filters, 1)

    inputs = keras.Input((320, 320, 3))
    x, features = conv(inputs, 32, 6, 2), []
    for filters, repeats in ((64, 1), (128, 2), (256, 3), (512, 1)):
        x = csp(conv(x, filters, 3, 2), filters, repeats)
        features.append(x)
    x = conv(x, 256, 1)
    pooled = [x]
    for _ in range(3):
        pooled.append(layers.MaxPooling2D(5, 1, "same")(pooled[-1]))
    x = conv(join(*pooled), 512, 1)
    top = conv(x, 256, 1)
    x = csp(join(resize(top, 2, "nearest"), features[2]), 256, 1)
    y = csp(join(conv(x, 256, 3, 2), top), 512, 1)
    return keras_model(
        keras.Model(inputs, [layers.Conv2D(255, 1)(x), layers.Conv2D(255, 1)(y)])
    )


def ssd_nms() -> Model:
    """MobileNet with heads at four sizes, decoding and non-maximum suppression."""
    inputs = keras.Input((300, 300, 3), name="images")
    x = conv_norm(inputs, 32, 3, 2, layers.ReLU(6.0))
    scores, boxes = [], []
    for filters, strides in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1),
        (512, 1), (1024, 2), (1024, 1), (256, 2), (256, 2),
    ):  # fmt: skip
        x = layers.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = conv_norm(x, filters, 1, activation=layers.ReLU(6.0))
        if x.shape[1] <= 19 and strides == 2:
            scores.append(layers.Conv2D(6 * 21, 3, padding="same")(x))
            boxes.append(layers.Conv2D(6 * 4, 3, padding="same")(x))
    scores = [layers.Reshape((-1, 21))(y) for y in scores]
    boxes = [layers.Reshape((-1, 4))(y) for y in boxes]
    network = keras.Model(
        inputs,
        [layers.Concatenate(axis=1)(scores), layers.Concatenate(axis=1)(boxes)],
    )
    calibrate_on(network, structured((2, 300, 300, 3)))
    module = tf.Module()
    module.network = network
    count = network.outputs[1].shape[1]
    centres = np.random.default_rng(0).uniform(0, 1, [count, 2]).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 300, 300, 3], name="images")])
    def detect(images):
        scores, codes = network(images, training=False)
        middle = centres + 0.1 * tf.tanh(codes[..., :2])
        half = 0.1 * tf.exp(tf.tanh(codes[..., 2:]))
        boxes = tf.concat([middle - half, middle + half], -1)
        found = tf.image.combined_non_max_suppression(
            boxes[:, :, None], tf.nn.softmax(scores)[..., 1:], 20, 50
        )
        return {"scores": scores, "codes": codes, **found._asdict()}

    return Model(
        lambda directory: tf.saved_model.save(module, directory, signatures=detect),
        lambda batch: {"images": structured((batch, 300, 300, 3))},
    )
