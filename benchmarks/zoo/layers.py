"""Layers of the zoo's hand-written networks."""

from __future__ import annotations

from keras import layers


def conv_norm(
    x,
    filters: int,
    kernel: int = 3,
    strides: int = 1,
    activation: str | layers.Layer | None = "relu",
    **keywords,
):
    """A convolution, a batch norm and an activation."""
    keywords.setdefault("padding", "same")
    x = layers.Conv2D(filters, kernel, strides, use_bias=False, **keywords)(x)
    return activate(layers.BatchNormalization()(x), activation)


def activate(x, activation: str | layers.Layer | None):
    """Applies an activation; "leaky_relu" has the slope of Darknet."""
    if activation is None:
        return x
    if activation == "leaky_relu":
        return layers.LeakyReLU(negative_slope=0.1)(x)
    return layers.Activation(activation)(x)


def residual(x, filters: int, strides: int = 1, dilation: int = 1):
    """Applies a ResNet bottleneck."""
    y = conv_norm(x, filters // 4, 1)
    y = conv_norm(y, filters // 4, 3, strides, dilation_rate=dilation)
    y = conv_norm(y, filters, 1, activation=None)
    if x.shape != y.shape:
        x = conv_norm(x, filters, 1, strides, activation=None)
    return layers.ReLU()(layers.Add()([x, y]))


def resnet(x, dilate_last: bool = False) -> list:
    """Returns feature maps of a small ResNet at strides 4, 8, 16 and 32.

    With `dilate_last`, the last stride is 16.
    """
    x = layers.MaxPooling2D(3, 2, "same")(conv_norm(x, 32, 7, 2))
    features = []
    for stage, filters in enumerate((128, 256, 512, 1024)):
        last = dilate_last and stage == 3
        for i in range(2):
            strides = 2 if stage and not i and not last else 1
            x = residual(x, filters, strides, dilation=2 if last else 1)
        features.append(x)
    return features


def resize(x, factor: int, interpolation: str = "bilinear"):
    return layers.UpSampling2D(factor, interpolation=interpolation)(x)


def join(*parts):
    return layers.Concatenate()(parts)


def classifier(x, classes: int = 1000):
    """Returns logits of the mean over an image."""
    return layers.Dense(classes)(layers.GlobalAveragePooling2D()(x))
