"""Sends a random batch to a model server and compares with the model itself.

    python examples/serving/client.py MODEL [--server=localhost:8500] [--name=NAME]

MODEL is the SavedModel that the server serves, or the one it was converted from.
Needs `pip install tensorflow-serving-api`.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import tensorflow as tf

from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs


def predict(
    server: str,
    name: str,
    signature: str,
    inputs: dict[str, np.ndarray],
    timeout: float = 60.0,
) -> dict[str, np.ndarray]:
    """The outputs of one predict request over gRPC."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    limit = 256 << 20  # gRPC's own are 4 MB
    options = [
        ("grpc.max_send_message_length", limit),
        ("grpc.max_receive_message_length", limit),
    ]
    with grpc.insecure_channel(server, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(request, timeout)
    return {key: tf.make_ndarray(value) for key, value in response.outputs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Asks a model server.")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--server", default="localhost:8500", metavar="HOST:PORT")
    parser.add_argument("--name", default="model")
    parser.add_argument("--signature")
    parser.add_argument("--batch_size", type=int, default=1)
    options = parser.parse_args()
    try:
        import grpc
        import tensorflow_serving.apis  # noqa: F401
    except ImportError:
        parser.exit(1, "client.py: needs pip install tensorflow-serving-api\n")

    loaded = tf.saved_model.load(options.model)
    signature = saved_models.choose_signature(options.signature, loaded)
    function = loaded.signatures[signature]
    inputs = example_inputs(function, options.batch_size)
    arrays = {key: value.numpy() for key, value in inputs.items()}
    start = time.perf_counter()
    try:
        found = predict(options.server, options.name, signature, arrays)
    except grpc.RpcError as error:
        parser.exit(1, f"client.py: {options.server}: {error.details()}\n")
    print(f"answered in {(time.perf_counter() - start) * 1e3:.1f} ms")
    difference = 0.0
    for key, expected in function(**inputs).items():
        expected = expected.numpy()
        largest = max(float(np.abs(expected).max()), 1e-30)
        difference = max(
            difference, float(np.abs(found[key] - expected).max()) / largest
        )
    print(f"largest relative difference {difference:.1e}")
    return 0 if difference < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
