"""Connections to TensorFlow Serving: predict requests over gRPC and REST."""

from __future__ import annotations

import abc
import dataclasses
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ios_tf.errors import UserError, first_line

Arrays = Mapping[str, np.ndarray]

# The ports that the documentation of TensorFlow Serving uses.
PORTS = {"grpc": "8500", "rest": "8501"}
_TIMEOUT_SECONDS = 60
_LARGEST_MESSAGE = 256 << 20  # gRPC's own limit is 4 MB


class ServerError(UserError):
    """A server that cannot be reached, or that answers with an error."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The model, signature and outputs that requests ask for.

    Attributes:
      name: the name of the served target.
      signature: the name of the signature.
      output_types: the types of the outputs by name.
    """

    name: str
    signature: str
    output_types: Mapping[str, np.dtype]


class Connection(abc.ABC):
    """A connection of one client to the server."""

    def __init__(self, address: str, target: Target) -> None:
        self._address, self._target = address, target

    @staticmethod
    @abc.abstractmethod
    def request(target: Target, inputs: Arrays) -> Any:
        """A request in the form that `predict` takes."""

    @abc.abstractmethod
    def predict(self, request: Any) -> Arrays:
        """The outputs for a request; raises ServerError."""

    @abc.abstractmethod
    def states(self) -> Mapping[int, str]:
        """The states of the model's versions; raises ServerError."""

    @abc.abstractmethod
    def close(self) -> None: ...


class Grpc(Connection):
    """Sends predict requests over gRPC."""

    def __init__(self, address: str, target: Target) -> None:
        import grpc
        from tensorflow_serving.apis import (
            model_service_pb2_grpc,
            prediction_service_pb2_grpc,
        )

        super().__init__(address, target)
        self._channel = grpc.insecure_channel(
            address,
            [
                ("grpc.max_send_message_length", _LARGEST_MESSAGE),
                ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
                # Each client has its own connection, as on different machines.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._service = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    @staticmethod
    def request(target: Target, inputs: Arrays) -> Any:
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = target.name
        request.model_spec.signature_name = target.signature
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        return request

    def predict(self, request: Any) -> Arrays:
        import tensorflow as tf

        with self._errors():
            response = self._service.Predict(request, _TIMEOUT_SECONDS)
        return {key: tf.make_ndarray(value) for key, value in response.outputs.items()}

    def states(self) -> Mapping[int, str]:
        from tensorflow_serving.apis import get_model_status_pb2

        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._target.name
        with self._errors():
            response = self._models.GetModelStatus(request, _TIMEOUT_SECONDS)
        state_name = get_model_status_pb2.ModelVersionStatus.State.Name
        return {
            one.version: state_name(one.state) for one in response.model_version_status
        }

    def close(self) -> None:
        self._channel.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import grpc

        try:
            yield
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                reason = error.details().rpartition(": ")[2]
                raise ServerError(_unreachable("grpc", self._address, reason)) from None
            code = error.code().name.lower().replace("_", " ")
            raise ServerError(_refused(self._address, code, error.details())) from None


class Rest(Connection):
    """Sends predict requests as JSON over HTTP."""

    def __init__(self, address: str, target: Target) -> None:
        super().__init__(address, target)
        self._path = f"/v1/models/{target.name}"
        self._connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_SECONDS)

    @staticmethod
    def request(target: Target, inputs: Arrays) -> Any:
        return json.dumps(
            {
                "signature_name": target.signature,
                "inputs": {key: _as_json(value) for key, value in inputs.items()},
            }
        ).encode()

    def predict(self, request: Any) -> Arrays:
        outputs = self._ask("POST", f"{self._path}:predict", request)["outputs"]
        types = self._target.output_types
        if len(types) == 1:  # the server then leaves out the name
            outputs = {next(iter(types)): outputs}
        return {key: np.array(value, types[key]) for key, value in outputs.items()}

    def states(self) -> Mapping[int, str]:
        found = self._ask("GET", self._path)["model_version_status"]
        return {int(one["version"]): one["state"] for one in found}

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        try:
            self._connection.request(method, path, body)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request connects again
            reason = first_line(error)
            raise ServerError(_unreachable("rest", self._address, reason)) from None
        try:
            answer = json.loads(content)
        except ValueError:
            answer = {"error": "the answer is not JSON; is it TensorFlow Serving?"}
        if "error" in answer:
            code = f"HTTP {response.status}"
            raise ServerError(_refused(self._address, code, answer["error"]))
        return answer


PROTOCOLS: Mapping[str, type[Connection]] = {
    "grpc": Grpc,
    "rest": Rest,
}


def _unreachable(protocol: str, address: str, reason: str) -> str:
    flag = {"grpc": "--port", "rest": "--rest_api_port"}[protocol]
    port = address.rpartition(":")[2]
    return (
        f"{address}: no server answers ({reason}); start one with {flag}={port}, or "
        f"give --{protocol}=HOST:PORT"
    )


def _refused(address: str, code: str, details: str) -> str:
    text = " ".join(details.split())[:300]
    if "Servable not found" in text or "Could not find any versions" in text:
        return (
            f"{address}: the server has no such model ({text}); give --name=NAME as in "
            "models.config"
        )
    return (
        f"{address}: the server refuses the request ({code}: {text}); check that MODEL "
        "and --signature name the served model and signature"
    )


def _as_json(value: np.ndarray) -> Any:
    if value.dtype.kind not in "biuf":
        raise UserError(
            f"inputs of type {value.dtype} are not sent as JSON; use --protocols=grpc"
        )
    return value.tolist()
