"""Serves an optimized network over HTTP with FastAPI.

    pip install fastapi uvicorn
    MODEL=model.keras uvicorn --app-dir=examples fastapi_server:app
    curl --data-binary @image.jpg -H 'Content-Type: image/jpeg' localhost:8000/predict

MODEL is a .keras file or a network of keras.applications, by default MobileNetV2.
FastAPI calls `predict` in several threads, which share the cores. One process is
enough: each further process would have its own copy of the weights.
"""

import contextlib
import os
from typing import Annotated

import keras
import tensorflow as tf
from fastapi import Body, FastAPI, HTTPException, Request

import ios_tf


def load():
    name = os.environ.get("MODEL", "MobileNetV2")
    if name.endswith(".keras"):
        return keras.saving.load_model(name)
    return getattr(keras.applications, name)(weights=None)


@contextlib.asynccontextmanager
async def lifespan(app):
    """Optimizes the network before the first request; later starts use the cache."""
    model = load()
    app.state.size = model.input_shape[1:3]
    app.state.faster = ios_tf.optimize(model, batch_size=1)
    print(app.state.faster.report.headline)
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/health")
def health(request: Request) -> dict[str, float | bool]:
    """Says whether regions run on the engine in this process."""
    return {
        "engine": ios_tf.status().problem is None,
        "speedup": request.app.state.faster.report.speedup,
    }


@app.post("/predict")
def predict(
    request: Request, image: Annotated[bytes, Body(media_type="image/jpeg")]
) -> list[float]:
    """The scores of an image (JPEG or PNG) in the body of the request."""
    state = request.app.state
    try:
        pixels = tf.io.decode_image(image, channels=3, expand_animations=False)
    except tf.errors.InvalidArgumentError:
        message = "The body is not an image; send JPEG or PNG."
        raise HTTPException(400, message) from None
    pixels = tf.image.resize(pixels[tf.newaxis], state.size) / 255
    return state.faster(pixels)[0].numpy().tolist()
