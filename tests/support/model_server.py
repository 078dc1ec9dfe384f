"""A small model server with the flags, protocols and answers of TensorFlow Serving.

TensorFlow Serving itself has no Python package. Like TensorFlow Serving, this server
loads models by TensorFlow's C API and runs them in sessions. It does not combine
requests into batches.

    python tests/support/model_server.py --model_config_file=models.config \\
        --plugin=ios_tf/lib/libios_tf_ops.so
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

State = get_model_status_pb2.ModelVersionStatus.State
_WARMUP = "assets.extra/tf_serving_warmup_requests"
_HTTP = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404}  # other codes give status 500
_THREADS = 40


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


class _Output(ctypes.Structure):
    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class RequestError(Exception):
    """A request that is answered with an error.

    Attributes:
      code: the name of a grpc.StatusCode.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Tensorflow:
    """TensorFlow's C API."""

    _POINTERS = (
        *("TF_NewStatus", "TF_NewSessionOptions", "TF_NewGraph", "TF_NewBuffer"),
        *("TF_LoadLibrary", "TF_LoadSessionFromSavedModel", "TF_GraphOperationByName"),
        *("TF_AllocateTensor", "TF_TensorData"),
    )

    def __init__(self) -> None:
        directory = Path(tf.__file__).parent
        self._library = ctypes.CDLL(str(directory / "libtensorflow_cc.so.2"))
        for name in self._POINTERS:
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.TF_Message.restype = ctypes.c_char_p
        self._library.TF_Dim.restype = ctypes.c_int64
        self._library.TF_TensorByteSize.restype = ctypes.c_size_t

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def checked(self, function: str, *arguments: Any) -> Any:
        """Calls a function whose last argument is a TF_Status.

        Raises:
          RequestError: the status is an error.
        """
        status = ctypes.c_void_p(self.TF_NewStatus())
        try:
            result = getattr(self, function)(*arguments, status)
            if code := self.TF_GetCode(status):
                names = {one.value[0]: one.name for one in grpc.StatusCode}
                raise RequestError(names[code], self.TF_Message(status).decode())
            return result
        finally:
            self.TF_DeleteStatus(status)

    def tensor(self, value: np.ndarray) -> ctypes.c_void_p:
        """A TF_Tensor with a copy of an array of numbers."""
        value = np.ascontiguousarray(value)
        dimensions = (ctypes.c_int64 * value.ndim)(*value.shape)
        kind = tf.as_dtype(value.dtype).as_datatype_enum
        size = ctypes.c_size_t(value.nbytes)
        tensor = self.TF_AllocateTensor(kind, dimensions, value.ndim, size)
        tensor = ctypes.c_void_p(tensor)
        data = ctypes.c_void_p(self.TF_TensorData(tensor))
        ctypes.memmove(data, value.ctypes.data, value.nbytes)
        return tensor

    def array(self, tensor: ctypes.c_void_p) -> np.ndarray:
        """A copy of a TF_Tensor of numbers."""
        rank = range(self.TF_NumDims(tensor))
        dtype = tf.as_dtype(self.TF_TensorType(tensor)).as_numpy_dtype
        data = ctypes.c_void_p(self.TF_TensorData(tensor))
        content = ctypes.string_at(data, self.TF_TensorByteSize(tensor))
        return np.frombuffer(content, dtype).reshape(
            [self.TF_Dim(tensor, i) for i in rank]
        )


class Session:
    """A SavedModel in a session."""

    def __init__(self, api: Tensorflow, path: Path, config: bytes) -> None:
        self._api = api
        options = ctypes.c_void_p(api.TF_NewSessionOptions())
        api.checked("TF_SetConfig", options, config, ctypes.c_size_t(len(config)))
        self._graph = ctypes.c_void_p(api.TF_NewGraph())
        buffer = ctypes.cast(api.TF_NewBuffer(), ctypes.POINTER(_Buffer))
        tags = (ctypes.c_char_p * 1)(b"serve")
        found = api.checked(
            "TF_LoadSessionFromSavedModel",
            *(options, None, bytes(path), tags, 1, self._graph, buffer),
        )
        self._session = ctypes.c_void_p(found)
        content = ctypes.string_at(buffer[0].data, buffer[0].length)
        self.signatures = meta_graph_pb2.MetaGraphDef.FromString(content).signature_def
        api.TF_DeleteBuffer(buffer)
        api.TF_DeleteSessionOptions(options)

    def run(
        self, signature_name: str, inputs: Mapping[str, np.ndarray | list[Any]]
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by name.

        Lists, which come from JSON, get the types of the signature's inputs.

        Raises:
          RequestError: there is no such signature, or the inputs do not match it.
        """
        name = signature_name or "serving_default"
        if name not in self.signatures:
            raise RequestError(
                "FAILED_PRECONDITION", f'Serving signature key "{name}" not found.'
            )
        signature = self.signatures[name]
        if inputs.keys() != signature.inputs.keys():
            raise RequestError(
                "INVALID_ARGUMENT",
                f"input keys {sorted(inputs)} are not {sorted(signature.inputs)}",
            )
        keys = sorted(signature.outputs)
        wanted = self._outputs(signature.outputs[key].name for key in keys)
        given = self._outputs(signature.inputs[key].name for key in inputs)
        tensors = [
            self._api.tensor(_array(signature.inputs[key], value))
            for key, value in inputs.items()
        ]
        results = (ctypes.c_void_p * len(keys))()
        try:
            self._api.checked(
                "TF_SessionRun",
                *(self._session, None),
                *(given, (ctypes.c_void_p * len(tensors))(*tensors), len(tensors)),
                *(wanted, results, len(keys), None, 0, None),
            )
            values = [self._api.array(ctypes.c_void_p(one)) for one in results]
            return dict(zip(keys, values, strict=True))
        finally:
            for tensor in (*tensors, *map(ctypes.c_void_p, filter(None, results))):
                self._api.TF_DeleteTensor(tensor)

    def _outputs(self, names: Iterator[str]) -> ctypes.Array[_Output]:
        outputs = []
        for name in names:
            operation, _, index = name.partition(":")
            found = self._api.TF_GraphOperationByName(self._graph, operation.encode())
            outputs.append(_Output(found, int(index)))
        return (_Output * len(outputs))(*outputs)

    def close(self) -> None:
        self._api.checked("TF_CloseSession", self._session)
        self._api.checked("TF_DeleteSession", self._session)
        self._api.TF_DeleteGraph(self._graph)


def _array(info: Any, value: np.ndarray | list[Any]) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.array(value, tf.as_dtype(info.dtype).as_numpy_dtype)
    except (ValueError, TypeError) as error:
        raise RequestError("INVALID_ARGUMENT", f"JSON Value: {error}") from None


@dataclasses.dataclass
class Version:
    """A version of a model, and the number of requests that use it now."""

    number: int
    state: int = State.LOADING
    session: Session | None = None
    users: int = 0


class Models:
    """The newest version of each model; replaces versions without a gap."""

    def __init__(self, api: Tensorflow, config: bytes) -> None:
        self._api, self._config = api, config
        self._versions: dict[str, dict[int, Version]] = {}
        self._changed = threading.Condition()

    def follow(self, name: str, directory: Path) -> None:
        """Loads the newest version in a directory, and then unloads the old version."""
        versions = self._versions.setdefault(name, {})
        numbers = [p.name for p in directory.iterdir() if p.name.isdecimal()]
        newest = max(map(int, numbers), default=None)
        if newest is None or (
            newest in versions and versions[newest].state != State.END
        ):
            return
        version = Version(newest)
        with self._changed:
            versions[newest] = version
        version.session = Session(self._api, directory / str(newest), self._config)
        self._warm_up(version.session, directory / str(newest) / _WARMUP)
        with self._changed:
            version.state = State.AVAILABLE
            old = [one for one in versions.values() if one.state == State.AVAILABLE]
            old.remove(version)
            for one in old:
                one.state = State.UNLOADING
        print(f"Successfully loaded servable version {name} {newest}", flush=True)
        for one in old:
            with self._changed:
                self._changed.wait_for(lambda one=one: one.users == 0)
                one.state = State.END
            one.session.close()
            one.session = None

    def _warm_up(self, session: Session, path: Path) -> None:
        if not path.exists():
            return
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            session.run(request.model_spec.signature_name, arrays(request.inputs))

    @contextlib.contextmanager
    def session(self, name: str) -> Iterator[Session]:
        """The session of the available version, which is kept while the block runs."""
        with self._changed:
            versions = self._versions.get(name, {}).values()
            found = [one for one in versions if one.state == State.AVAILABLE]
            if not found:
                raise RequestError(
                    "NOT_FOUND", f"Servable not found for request: Latest({name})"
                )
            version = found[0]
            version.users += 1
        try:
            assert version.session
            yield version.session
        finally:
            with self._changed:
                version.users -= 1
                self._changed.notify_all()

    def states(self, name: str) -> dict[int, int]:
        """The states of all versions so far."""
        if name not in self._versions:
            raise RequestError(
                "NOT_FOUND", f"Could not find any versions of model {name}"
            )
        with self._changed:
            return {one.number: one.state for one in self._versions[name].values()}


def arrays(protos: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {key: tf.make_ndarray(proto) for key, proto in protos.items()}


@contextlib.contextmanager
def _aborted(context: grpc.ServicerContext) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        context.abort(grpc.StatusCode[error.code], str(error))


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models: Models) -> None:
        self._models = models

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        spec = request.model_spec
        with _aborted(context), self._models.session(spec.name) as session:
            outputs = session.run(spec.signature_name, arrays(request.inputs))
        response = predict_pb2.PredictResponse()
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, models: Models) -> None:
        self._models = models

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = get_model_status_pb2.GetModelStatusResponse()
        with _aborted(context):
            states = self._models.states(request.model_spec.name)
        for number, state in states.items():
            response.model_version_status.add(version=number, state=state)
        return response


class RestHandler(BaseHTTPRequestHandler):
    """Answers as g3doc/api_rest.md of TensorFlow Serving says."""

    models: Models
    protocol_version = "HTTP/1.1"
    # Otherwise the answer's body waits until the client acknowledges its headers.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        def answer() -> Any:
            (name,) = self._matched(r"/v1/models/([^/:]+)")
            states = self.models.states(name).items()
            return {
                "model_version_status": [
                    {"version": str(number), "state": State.Name(state)}
                    for number, state in states
                ]
            }

        self._answer(answer)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))

        def answer() -> Any:
            (name,) = self._matched(r"/v1/models/([^/:]+):predict")
            request = json.loads(body)
            with self.models.session(name) as session:
                outputs = session.run(
                    request.get("signature_name", ""), request["inputs"]
                )
            lists = {key: value.tolist() for key, value in outputs.items()}
            return {"outputs": lists if len(lists) > 1 else next(iter(lists.values()))}

        self._answer(answer)

    def _matched(self, pattern: str) -> tuple[str, ...]:
        found = re.fullmatch(pattern, self.path)
        if not found:
            raise RequestError("INVALID_ARGUMENT", f"Malformed request: {self.path}")
        return found.groups()

    def _answer(self, answer: Any) -> None:
        code = 200
        try:
            content = answer()
        except RequestError as error:
            code, content = _HTTP.get(error.code, 500), {"error": str(error)}
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class RestServer(ThreadingHTTPServer):
    request_queue_size = 128  # clients that connect at the same time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8500)
    parser.add_argument("--rest_api_port", type=int, default=8501)
    parser.add_argument("--model_config_file", type=Path, required=True)
    parser.add_argument("--file_system_poll_wait_seconds", type=float, default=1)
    parser.add_argument("--tensorflow_intra_op_parallelism", type=int, default=0)
    parser.add_argument("--plugin", help="libios_tf_ops.so; default: none")
    flags = parser.parse_args()

    api = Tensorflow()
    if flags.plugin:
        api.checked("TF_LoadLibrary", os.fsencode(flags.plugin))
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=flags.tensorflow_intra_op_parallelism
    )
    models = Models(api, config.SerializeToString())
    file = model_server_config_pb2.ModelServerConfig()
    text_format.Parse(flags.model_config_file.read_text(), file)
    listed = {one.name: Path(one.base_path) for one in file.model_config_list.config}
    for name, directory in listed.items():
        models.follow(name, directory)

    server = grpc.server(
        ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)]
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(models), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(models), server
    )
    try:
        port = server.add_insecure_port(f"localhost:{flags.port}")
        RestHandler.models = models
        rest = RestServer(("localhost", flags.rest_api_port), RestHandler)
    except (RuntimeError, OSError) as error:
        print(f"model_server.py: cannot listen: {error}", file=sys.stderr)
        return 1
    server.start()
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    print(f"Running gRPC ModelServer at localhost:{port}", flush=True)
    print(f"Exporting HTTP/REST API at localhost:{rest.server_port}", flush=True)
    while not ended.wait(flags.file_system_poll_wait_seconds):
        for name, directory in listed.items():
            models.follow(name, directory)
    server.stop(None).wait()
    rest.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
