"""The interface of all experiments: their options, results and records.

An experiment measures numbers that can be written as JSON. Its tables depend on that
JSON alone, so the results page can be rebuilt at any time.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
import importlib.util
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import SavedModel, Target
from benchmarks.network import Network
from benchmarks.network_search import Found, find_schedules, interleaved_ms
from benchmarks.results import read_json, write_results
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.packages import version_of
from ios_tf.scheduler import PAPER_PRUNING, Pruning, Schedule, document

VERSION = 1
FOUR_NETWORKS = (
    "models:inception_v3",
    "models:randwire",
    "models:nasnet_a_large",
    "models:squeezenet",
)
# Keras' names of nodes inside layers.
_INSIDE_LAYERS = (
    "convolution",
    "batchnorm",
    "mul",
    "mul_1",
    "add_1",
    "MaxPool2d",
    "Mean",
)
# The paper's names of networks, if they differ from ours.
_PAPER_NAMES = {"nasnet_a_large": "nasnet_a"}
_PAPER = Path(__file__).with_name("paper_results.json")


@dataclasses.dataclass(frozen=True)
class Context:
    """The settings of an experiment.

    Attributes:
      networks: the networks to run, at the requested batch size.
      target: the device, dtype, threads and time limit of the measurements.
      rounds: rounds of every interleaved measurement; an even number.
      quick: whether to measure less.
      options: the experiment's own options.
      log: prints a line.
      keep: writes partial results, in case the run ends early. In `measure_network`,
        these are results of the network, and earlier networks' results are kept, too.
      saved_models: the SavedModels of networks by name; networks from files have none.
    """

    networks: Sequence[Network]
    target: Target
    rounds: int
    quick: bool
    options: argparse.Namespace
    log: Callable[[str], None]
    keep: Callable[[Any], object] = lambda results: None
    saved_models: Mapping[str, SavedModel] = dataclasses.field(default_factory=dict)

    @property
    def device(self) -> str:
        """The engine's name of the device."""
        return self.target.device

    def find_schedules(
        self,
        network: Network,
        strategy: str = "auto",
        pruning: Pruning = PAPER_PRUNING,
        share: float = 1.0,
    ) -> Found:
        """Searches for schedules in a share of the time limit; see `network_search`."""
        limit = share * self.target.time_limit
        found = find_schedules(network, strategy, self.device, pruning, limit)
        self.log(
            f"{network.name}, batch {network.batch_size}, {strategy}, r = "
            f"{pruning.max_group_size}, s = {pruning.max_groups}: "
            f"{found.stats.seconds:.1f} s, {found.stats.measured} measurements"
        )
        return found

    def interleaved_ms(
        self, network: Network, candidates: Sequence[Mapping[str, Schedule]]
    ) -> np.ndarray:
        """Measures a network under several sets of schedules in one session."""
        return interleaved_ms(network, candidates, self.device, self.rounds)


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of one network.

    Attributes:
      network: its name.
      found: the result of `Experiment.measure_network`.
      results: the result of `Experiment.measure`.
      paper: the paper's results.
    """

    network: str
    found: Any
    results: Mapping[str, Any]
    paper: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The network's name without its origin."""
        return short_name(self.network)

    def published(self, key: str) -> Any:
        """Returns the paper's results for the network, or an empty mapping."""
        of_networks = self.paper.get(key, {})
        return of_networks.get(paper_name(self.network), {})


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of text; the first column names the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Experiment(abc.ABC):
    """One command of `python -m benchmarks`.

    Attributes:
      name: name of the subcommand and of its files.
      help: one line, without a full stop.
      networks: the default networks.
      quick_networks: the default networks with --quick.
    """

    name: str
    help: str
    networks: Sequence[str] = FOUR_NETWORKS
    quick_networks: Sequence[str] = FOUR_NETWORKS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the experiment's own options."""
        return

    def measure(self, context: Context) -> dict[str, Any]:
        """Measures all networks; returns an object that can be written as JSON.

        If a network fails, measures the others before it raises an error.

        Raises:
          UserError: the input is wrong, or the engine failed; the message is one line.
        """
        networks: dict[str, Any] = {}
        failures: list[str] = []
        for network in context.networks:

            def keep(found: Any, name: str = network.name) -> None:
                networks[name] = found
                context.keep({"networks": networks})

            of_network = dataclasses.replace(context, keep=keep)
            try:
                keep(self.measure_network(network, of_network))
            except (engine.EngineError, UserError) as error:
                failures.append(f"{network.name}: {error}")
                context.log(failures[-1])
        if failures:
            raise UserError("; ".join(failures))
        return {"networks": networks}

    @abc.abstractmethod
    def measure_network(self, network: Network, context: Context) -> Any:
        """Measures one network."""

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        """Returns tables of `measure`'s results and the paper's, if it has any."""
        return [
            table
            for network, found in results["networks"].items()
            for table in self.tables_of(Result(network, found, results, paper))
        ]

    @abc.abstractmethod
    def tables_of(self, result: Result) -> list[Table]:
        """Returns the tables of a network."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The results and the conditions of an experiment, stored as JSON.

    Attributes:
      experiment: name of the experiment.
      command: the command line that repeats the experiment.
      date: UTC, ISO 8601.
      device: the engine's fingerprint of the device.
      machine: processor, cores, operating system.
      versions: versions of the software that may have been used.
      settings: settings of the measurement.
      seconds: duration of the whole command.
      results: the result of `Experiment.measure`.
    """

    experiment: str
    command: str
    date: str
    device: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: float
    results: Mapping[str, Any]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the record, completely or not at all; `read` reads it.

        Raises:
          UserError: the file cannot be written.
        """
        write_results(path, {"version": VERSION, **dataclasses.asdict(self)})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a record.

        Raises:
          UserError: the file is wrong; the message is one line.
        """
        try:
            data = document.read(path)
            if data.pop("version") != VERSION:
                raise ValueError(f"its version is not {VERSION}")
            return cls(**data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{os.fspath(path)} is not a valid result of a benchmark: {error}"
            ) from None


def machine() -> dict[str, Any]:
    """Returns the processor, this process's usable cores, and operating system."""
    return {
        "processor": engine.cpu_description()["processor"],
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """Returns the versions of Python and of installed packages that may take part."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("tensorflow", "ai_edge_litert", "onnxruntime", "openvino", "torch"):
        if importlib.util.find_spec(name):
            found[name] = version_of(name) or "?"
    return found


def quantiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Returns the median and spread of latencies."""
    values = [float(value) for value in latencies_ms]
    low, high = np.percentile(values, (10, 90))
    return {
        "median_ms": statistics.median(values),
        "p10_ms": float(low),
        "p90_ms": float(high),
    }


def summary(latencies_ms: Sequence[float]) -> dict[str, Any]:
    """Returns the median, spread and number of latencies."""
    return {**quantiles(latencies_ms), "samples": len(latencies_ms)}


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Returns the median ratio of two candidates that each round has measured."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))


def short_name(network: str) -> str:
    """Returns a network's name without its origin."""
    name = network.rpartition("/")[2]
    if name.partition(":")[0] in ("models", "keras"):
        name = name.partition(":")[2]
    return name.removesuffix(".json").removesuffix(".keras")


def layer_name(operator: str) -> str:
    """Returns the layer of an operator, which has the name of its node."""
    layers = operator.split("/")
    while len(layers) > 1 and layers[-1] in _INSIDE_LAYERS:
        layers.pop()
    return layers[-1]


def paper_name(network: str) -> str:
    """Returns the network's name in the paper's results."""
    name = short_name(network)
    return _PAPER_NAMES.get(name, name)


def paper_results(path: str | None = None) -> dict[str, Any]:
    """Returns the paper's results, or those in a file of the same format.

    Raises:
      UserError: the file cannot be read.
    """
    return read_json(path or _PAPER)


def search_time(seconds: float, stopped: Any) -> str:
    """Formats seconds for a table; marks them if the time limit stopped a search."""
    return f"{seconds:.1f}" + ("*" if stopped else "")


# The column headers for `quantile_cells`.
QUANTILES = ("median ms", "10 %", "90 %")


def quantile_cells(row: Mapping[str, Any]) -> list[str]:
    """Returns table cells for the result of `quantiles`."""
    return [ms(row[key]) for key in ("median_ms", "p10_ms", "p90_ms")]


def ms(value: float) -> str:
    """Formats milliseconds for a table, with three or more digits."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
