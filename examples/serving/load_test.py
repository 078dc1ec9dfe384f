"""Loads a model server, and compares its answers with those of the original model.

    python examples/serving/load_test.py MODEL --name=NAME [--clients=1,8,32]
    python examples/serving/load_test.py MODEL --name=NAME --swap=5 \\
        --versions=DIRECTORY/NAME

MODEL is the SavedModel or Keras file from which the served model was prepared. Each
client has its own connection, and sends its next request as soon as it has an answer.
Needs `pip install tensorflow-serving-api`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import prepare
from connections import PORTS, PROTOCOLS, Arrays, Connection, ServerError, Target

from ios_tf import validation
from ios_tf.callers.loops import closed_loop
from ios_tf.cli import arguments
from ios_tf.cli.parser import Parser
from ios_tf.differences import relative_difference, spread
from ios_tf.errors import UserError
from ios_tf.options import number
from ios_tf.tables import table

_REQUESTS = 4  # different requests, which each client sends in turn
# How long a server may take to load a version. It sends the warm-up requests, too.
_LOAD_SECONDS = 300
_POLL_SECONDS = 0.1
Columns = Sequence[tuple[str, str, str]]
# The columns of the tables: the name of a figure in JSON, its title, and its format.
_COUNTS: Columns = (
    ("requests", "requests", "d"),
    ("failed", "failed", "d"),
    ("difference", "difference", ".1e"),
)
_LOADED: Columns = (
    ("clients", "clients", "d"),
    ("images_per_second", "images/s", ".1f"),
    ("p50_ms", "p50 ms", ".1f"),
    ("p99_ms", "p99 ms", ".1f"),
    ("cpu_ms_per_image", "CPU ms/image", ".2f"),
    *_COUNTS,
)
_SWAPPED: Columns = (
    ("clients", "clients", "d"),
    ("swaps", "swaps", "d"),
    ("seconds_per_swap", "s/swap", ".1f"),
    *_COUNTS,
)


def main() -> int:
    return command_line.run(_parser(), _test)


class Model:
    """The original model: the requests to send, and the answers to expect.

    Attributes:
      target: the model and signature to ask for.
      inputs: the inputs of the different requests.
      images: the number of images of a request.
      notes: what a reader of the results should know.
    """

    def __init__(self, path: str, flags: argparse.Namespace) -> None:
        """Loads the model and computes what it answers.

        Raises:
          UserError: the model cannot be loaded, or does not accept the inputs.
        """
        from ios_tf.model import saved_models
        from ios_tf.model.inputs import accepted_inputs, outputs_of, parse_inputs

        loaded = saved_models.load(path)
        signature = saved_models.choose_signature(flags.signature, loaded)
        function = loaded.signatures[signature]
        given = parse_inputs(flags.input or ())
        inputs, _ = accepted_inputs(function, flags.batch_size, given)
        self.inputs = [
            {key: _changed(value.numpy(), number) for key, value in inputs.items()}
            for number in range(_REQUESTS)
        ]
        self._expected = [_arrays(outputs_of(function, one)) for one in self.inputs]
        sizes = {int(value.shape[0]) for value in inputs.values() if value.shape.rank}
        self.images = sizes.pop() if len(sizes) == 1 else flags.batch_size
        types = {key: value.dtype for key, value in self._expected[0].items()}
        self.target = Target(flags.name, signature, types)
        self.notes = self._notes()

    def difference(self, number: int, outputs: Arrays) -> float:
        """The largest difference from the original's outputs, relative to the largest.

        The result is infinity if outputs are missing or have another shape.
        """
        expected = self._expected[number]
        if expected.keys() != outputs.keys():
            return float("inf")
        return max(
            relative_difference(outputs[key], value) for key, value in expected.items()
        )

    def _notes(self) -> list[str]:
        first, second = self._expected[:2]
        return [
            f"output {key!r} does not depend on the input, so its comparison shows "
            "little; use a model with trained weights"
            for key in sorted(first)
            if spread(first[key], second[key]) == 0
        ]


def _arrays(outputs: Mapping[str, Any]) -> Arrays:
    return {key: value.numpy() for key, value in outputs.items()}


def _changed(values: np.ndarray, number: int) -> np.ndarray:
    """Other values for each number; the values of whole numbers stay in their range."""
    moved = np.roll(values, number)
    if values.dtype.kind not in "iuf":
        return moved
    return (moved * ((_REQUESTS - number) / _REQUESTS)).astype(values.dtype)


class Client:
    """One client: sends requests, and checks and counts the answers.

    Attributes:
      latencies_ms: the latency of each request, or None for one that failed.
      failure: the first error, if a request failed.
      largest_difference: the largest one of all answers.
    """

    def __init__(
        self, model: Model, connection: Connection, requests: Sequence[Any], first: int
    ) -> None:
        self.latencies_ms: list[float | None] = []
        self.failure: str | None = None
        self.largest_difference = 0.0
        self._model, self._connection, self._requests = model, connection, requests
        self._numbers = itertools.cycle(
            (first + number) % len(requests) for number in range(len(requests))
        )

    def __call__(self) -> None:
        number = next(self._numbers)
        start = time.perf_counter()
        try:
            outputs = self._connection.predict(self._requests[number])
        except ServerError as error:
            self.latencies_ms.append(None)
            self.failure = self.failure or str(error)
            return
        self.latencies_ms.append((time.perf_counter() - start) * 1e3)
        difference = self._model.difference(number, outputs)
        self.largest_difference = max(self.largest_difference, difference)


class Load:
    """All clients of a protocol."""

    def __init__(self, model: Model, protocol: str, address: str, clients: int) -> None:
        make = PROTOCOLS[protocol]
        requests = [make.request(model.target, inputs) for inputs in model.inputs]
        self._connections = [make(address, model.target) for _ in range(clients)]
        self.clients = [
            Client(model, connection, requests, first)
            for first, connection in enumerate(self._connections)
        ]

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: Any) -> None:
        for connection in self._connections:
            connection.close()

    @property
    def calls(self) -> int:
        return sum(len(client.latencies_ms) for client in self.clients)

    @property
    def failed(self) -> int:
        return sum(client.latencies_ms.count(None) for client in self.clients)

    def answered_ms(self, counted: int) -> list[float]:
        """The latencies of the answered ones of the last `counted` requests."""
        first = (self.calls - counted) // len(self.clients)  # of each client
        latencies = [ms for one in self.clients for ms in one.latencies_ms[first:]]
        return [ms for ms in latencies if ms is not None]

    @property
    def failure(self) -> str | None:
        return next((one.failure for one in self.clients if one.failure), None)

    @property
    def largest_difference(self) -> float:
        return max(client.largest_difference for client in self.clients)


def processor_seconds(pid: int) -> float:
    """The processor time of all threads of a process so far.

    Raises:
      UserError: there is no such process.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        raise UserError(
            f"--pid={pid}: there is no such process on this machine; give the number "
            "of the server's process"
        ) from None
    # The second field, a name in parentheses, may have spaces.
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _measure(load: Load, model: Model, flags: argparse.Namespace) -> dict[str, Any]:
    """Runs the load, and returns the figures of a row."""
    before = processor_seconds(flags.pid) if flags.pid else 0.0
    measurement = closed_loop(load.clients, flags.seconds)
    used = processor_seconds(flags.pid) - before if flags.pid else 0.0
    answered_ms = load.answered_ms(len(measurement.latencies_ms))
    if not answered_ms:
        return _counts(load)
    measurement = dataclasses.replace(measurement, latencies_ms=answered_ms)
    figures = measurement.figures(model.images)
    names = ("images_per_second", "p50_ms", "p99_ms")
    cpu_ms = used * 1e3 / (load.calls * model.images)
    return {
        **{name: figures[name] for name in names},
        "cpu_ms_per_image": cpu_ms if flags.pid else None,
        **_counts(load),
    }


def _counts(load: Load) -> dict[str, Any]:
    return {
        "requests": load.calls,
        "failed": load.failed,
        "difference": load.largest_difference,
    }


@contextlib.contextmanager
def _running(load: Load) -> Iterator[None]:
    """Lets all clients send requests while the block runs."""
    ended = threading.Event()

    def run(client: Client) -> None:
        while not ended.is_set():
            client()

    threads = [threading.Thread(target=run, args=(one,)) for one in load.clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def swap_versions(
    versions: Path, count: int, states: Callable[[], Mapping[int, str]]
) -> None:
    """Adds copies of the newest version as newer versions, one after another.

    The server loads each copy. The copies are removed, and the server returns to the
    version that it had before.

    Args:
      versions: the directory that the server watches.
      count: number of copies.
      states: returns the states of versions on the server.

    Raises:
      UserError: the directory has no versions, or the server does not load a copy.
    """
    original = max(prepare.version_numbers(versions))
    copies = [versions / str(original + i) for i in range(1, count + 1)]
    unfinished = versions / f".{original + 1}.unfinished"
    try:
        for copy in copies:
            shutil.copytree(versions / str(original), unfinished)
            unfinished.rename(copy)
            _wait(int(copy.name), states)
            _remove(one for one in copies if int(one.name) < int(copy.name))
    finally:
        _remove([unfinished, *copies])
    _wait(original, states)


def _remove(directories: Iterable[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _wait(version: int, states: Callable[[], Mapping[int, str]]) -> None:
    """Waits until the server answers with a version and with no other."""
    end = time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < end:
        found = states()
        if found.get(version) == "AVAILABLE" and not any(
            state in ("AVAILABLE", "UNLOADING")
            for other, state in found.items()
            if other != version
        ):
            return
        time.sleep(_POLL_SECONDS)
    raise UserError(
        f"the server has not loaded version {version} in {_LOAD_SECONDS} s; check that "
        "--versions is the directory that it watches, and read its log"
    )


def _parser() -> Parser:
    parser = Parser(prog="load_test.py", description="Loads a model server.")
    parser.add_argument(
        "model", metavar="MODEL", help="the original model, a SavedModel or Keras file"
    )
    parser.add_argument(
        "--name", default="model", help="name of the served model; default: model"
    )
    parser.add_argument("--signature", help="signature to call; default: the usual one")
    for protocol, port in PORTS.items():
        parser.add_argument(
            f"--{protocol}",
            type=validation.as_argument(_address),
            default=f"localhost:{port}",
            metavar="HOST:PORT",
            help=f"address for {protocol}; default: localhost:{port}",
        )
    parser.add_argument(
        "--protocols",
        type=validation.as_argument(_protocols),
        default=list(PORTS),
        metavar="grpc[,rest]",
        help="protocols to test; default: grpc,rest",
    )
    parser.add_argument(
        "--clients",
        type=validation.as_argument(_clients),
        default=[1, 8, 32],
        metavar="N[,N...]",
        help="numbers of clients; default: 1,8,32",
    )
    parser.add_argument(
        "--seconds",
        type=validation.as_argument(_seconds),
        default=10,
        metavar="N",
        help="duration of each row of the table; default: 10",
    )
    parser.add_argument(
        "--batch_size",
        type=validation.as_argument(_batch_size),
        default=1,
        metavar="N",
        help="images of a request; default: 1",
    )
    parser.add_argument(
        "--input",
        action="append",
        metavar="NAME=FILE.npy",
        help="an input, or its shape (NAME=1,224,224,3); default: random values",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="X",
        help="largest allowed difference from the original's outputs, relative to the "
        "largest output; default: 0.001",
    )
    parser.add_argument(
        "--pid",
        type=validation.as_argument(_pid),
        metavar="N",
        help="process of the server on this machine, to measure its processor time",
    )
    parser.add_argument(
        "--swap",
        type=validation.as_argument(_swaps),
        default=0,
        metavar="N",
        help="instead of the table, replace the version N times under load",
    )
    parser.add_argument(
        "--versions",
        metavar="DIRECTORY",
        help="with --swap: the directory of the model's versions that the server "
        "watches, DIRECTORY/NAME of prepare.py",
    )
    arguments.add_json(parser)
    return parser


def _address(text: str) -> str:
    if not re.fullmatch(r"[^/\s]+:[0-9]{1,5}", text):
        raise UserError(f"must be HOST:PORT, such as localhost:8500, not {text!r}")
    return text


def _protocols(text: str) -> list[str]:
    names = text.split(",")
    if set(names) - set(PORTS):
        raise UserError(f"must be grpc, rest or grpc,rest, not {text!r}")
    return names


def _clients(text: str) -> list[int]:
    return validation.callers("clients", [number(part) for part in text.split(",")])


def _seconds(text: str) -> int:
    return validation.whole("seconds", number(text), most=3600)


def _batch_size(text: str) -> int:
    return validation.whole("batch_size", number(text))


def _pid(text: str) -> int:
    return validation.whole("pid", number(text))


def _swaps(text: str) -> int:
    return validation.whole("swap", number(text), most=1000)


def _test(flags: argparse.Namespace) -> int:
    """Runs the test.

    Returns:
      0 if all requests were answered as by the original model, otherwise 1.
    """
    if flags.swap and not (flags.versions and _has_versions(flags.versions)):
        raise UserError(
            f"--versions={flags.versions}: there is no version of a model; give "
            "--versions=DIRECTORY/NAME, with DIRECTORY and NAME of prepare.py"
        )
    if ":" in flags.model and not os.path.exists(flags.model):
        raise UserError(
            f"{flags.model} would have other weights than the served model; give the "
            "SavedModel or Keras file that prepare.py converted"
        )
    command_line.load_libraries()

    from ios_tf.model.loading import saved_model

    with saved_model(flags.model) as path:
        model = Model(path, flags)
    addresses = {name: getattr(flags, name) for name in flags.protocols}
    for protocol, address in addresses.items():
        _check_answer(model, protocol, address)
    test, columns = (_swap, _SWAPPED) if flags.swap else (_load, _LOADED)
    rows, problems = test(model, addresses, flags)
    document = {
        "rows": [_json_row(row, columns) for row in rows],
        "notes": model.notes,
        "problems": problems,
    }
    text = "\n".join([_table(rows, columns), *model.notes, *problems])
    arguments.print_result(flags, document, text)
    return 1 if problems else 0


def _has_versions(directory: str) -> bool:
    return bool(prepare.version_numbers(Path(directory)))


def _check_answer(model: Model, protocol: str, address: str) -> None:
    """Sends one request; raises ServerError."""
    with Load(model, protocol, address, 1) as load:
        load.clients[0]()
        if load.failure:
            raise ServerError(load.failure)


def _json_row(row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """The row with all its columns; None for figures that are unknown or infinite."""
    figures = {key: row.get(key) for key, _, _ in columns}
    return {"protocol": row["protocol"]} | {
        key: None if value is None or not math.isfinite(value) else value
        for key, value in figures.items()
    }


def _table(rows: Iterable[Mapping[str, Any]], columns: Columns) -> str:
    """The rows as text, with "-" for figures that are not known."""
    cells = [
        [row["protocol"]]
        + [
            "-" if row.get(key) is None else format(row[key], spec)
            for key, _, spec in columns
        ]
        for row in rows
    ]
    return table(["", *(title for _, title, _ in columns)], cells)


def _load(
    model: Model, addresses: Mapping[str, str], flags: argparse.Namespace
) -> tuple[list[dict[str, Any]], list[str]]:
    """Loads the server.

    Returns:
      The rows of the table, and sentences about what is wrong.
    """
    rows, problems = [], []
    for protocol, address in addresses.items():
        for count in flags.clients:
            with Load(model, protocol, address, count) as load:
                figures = _measure(load, model, flags)
                rows.append({"protocol": protocol, "clients": count, **figures})
                problems += _problems(load, f"{protocol}, {count} clients", flags)
    return rows, problems


def _swap(
    model: Model, addresses: Mapping[str, str], flags: argparse.Namespace
) -> tuple[list[dict[str, Any]], list[str]]:
    """Replaces versions under load.

    Returns:
      The rows of the table, and sentences about what is wrong.
    """
    rows, problems = [], []
    for protocol, address in addresses.items():
        for count in flags.clients:
            with Load(model, protocol, address, count) as load:
                start = time.perf_counter()
                with (
                    contextlib.closing(
                        PROTOCOLS[protocol](address, model.target)
                    ) as watcher,
                    _running(load),
                ):
                    swap_versions(Path(flags.versions), flags.swap, watcher.states)
                # The server has also returned to the first version.
                seconds = (time.perf_counter() - start) / (flags.swap + 1)
                rows.append(
                    {
                        "protocol": protocol,
                        "clients": count,
                        "swaps": flags.swap + 1,
                        "seconds_per_swap": seconds,
                        **_counts(load),
                    }
                )
                problems += _problems(load, f"{protocol}, {count} clients", flags)
    return rows, problems


def _problems(load: Load, row: str, flags: argparse.Namespace) -> list[str]:
    problems = []
    if load.failed:
        problems.append(
            f"{row}: {load.failed} requests failed, such as: {load.failure}"
        )
    if not load.largest_difference <= flags.tolerance:
        problems.append(
            f"{row}: outputs differ by {load.largest_difference:.1e} of the largest "
            f"output, more than --tolerance={flags.tolerance:g}; check that MODEL is "
            "the model that was prepared"
        )
    return problems


if __name__ == "__main__":
    sys.exit(main())
