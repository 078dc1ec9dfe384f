"""Inception V3 and NASNet-A (large) of keras.applications, at their usual sizes."""

from __future__ import annotations

import keras


def inception_v3(size: int = 299) -> keras.Model:
    """Inception V3, images [N, size, size, 3] to logits [N, 1000]."""
    return keras.applications.InceptionV3(
        weights=None, input_shape=(size, size, 3), classifier_activation=None
    )


def nasnet_a_large(size: int = 331) -> keras.Model:
    """NASNet-A (6 @ 4032), images [N, size, size, 3] to logits [N, 1000]."""
    return keras.applications.NASNetLarge(
        weights=None, input_shape=(size, size, 3), classifier_activation=None
    )
