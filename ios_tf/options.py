"""The options of the public functions and of the command line.

Each option is a field of one of the dataclasses below. The keyword arguments of the
functions (`with_options`), the flags of the commands (ios_tf/cli/arguments.py) and
docs/reference/options.md are derived from these fields. This module imports neither
TensorFlow nor numpy, because `ios_tf --help` must be quick.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import textwrap
import typing
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from ios_tf import validation
from ios_tf.errors import UserError
from ios_tf.old_names import check_argument_names
from ios_tf.strategies import (
    ON_MISS,
    PRECISIONS,
    SLOWEST_FIRST,
    STRATEGIES,
    OnMiss,
    PrecisionName,
    StrategyName,
)

# The height and width that most networks for images accept, in pixels.
USUAL_IMAGE_SIZE = (224, 224)

_KEY = "option"
# The groups of options, in the order of the help and of the documents.
GROUPS = (
    "Model",
    "Sizes and device",
    "Search",
    "Measurements",
    "Many callers",
    "Several machines",
    "Schedule cache",
    "Result",
    "Messages",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """The description of an option besides its name, type and default value.

    Attributes:
      help: a noun phrase or a verb phrase without a final period. More sentences may
        follow.
      group: one of `GROUPS`.
      check: called with the option's name and value; returns the value in the form
        that the package uses. Raises UserError.
      flag: the name on the command line, if it is not the option's name; None if the
        command line does not have the option.
      parse: turns the text of a flag into a value for `check`.
      metavar: the placeholder for the flag's value in the help.
      choices: the values that the flag may have, if its help lists them.
      repeated: whether each use of the flag gives one element of a list.
      default_text: describes a default value of None.
    """

    help: str
    group: str
    check: Callable[[str, Any], Any] = lambda name, value: value
    flag: str | None = ""
    parse: Callable[[str], Any] = str
    metavar: str | None = None
    choices: Sequence[str] | None = None
    repeated: bool = False
    default_text: str | None = None


def _option(default: Any, help: str, group: str, **details: Any) -> Any:
    option = Option(help=help, group=group, **details)
    return field(default=default, metadata={_KEY: option})


def _same(options: Any, name: str, **changes: Any) -> Any:
    """Returns a field that equals another class's field except for these changes."""
    (found,) = (f for f in dataclasses.fields(options) if f.name == name)
    details: dict[str, Any] = {"default": found.default, "metadata": found.metadata}
    return field(**details | changes)


def number(text: str) -> Any:
    """Converts a text to a whole number.

    Returns the text itself if it is not a whole number.
    """
    # The length is limited because Python refuses to parse very long numbers.
    return int(text) if text.isdecimal() and len(text) < 1000 else text


def _numbers(text: str) -> Any:
    parts = [number(part) for part in text.split(",")]
    return parts if len(parts) > 1 else parts[0]


def _decimal(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _ignore(line: str) -> None:
    """Ignores a line. The default value of the option `log`."""


_strategy = functools.partial(validation.one_of, choices=STRATEGIES)
_on_miss = functools.partial(validation.one_of, choices=ON_MISS)
_precision = functools.partial(validation.one_of, choices=PRECISIONS)


def _strategies(name: str, value: Any) -> list[str]:
    return [_strategy(name, strategy) for strategy in validation.strings(name, value)]


_count_option = functools.partial(_option, parse=number, metavar="N")


def _optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


class _Checked:
    """The base of dataclasses whose fields are options.

    Raises:
      UserError: a value is not valid.
    """

    def __post_init__(self) -> None:
        for name, found in options_of(type(self)).items():
            value = found.check(name, getattr(self, name))
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions(_Checked):
    """The options of every function that may search for schedules."""

    max_groups: int = _count_option(
        8,
        "largest number of groups per stage that the search considers (the paper's s); "
        "0 means no limit",
        "Search",
        check=validation.search_limit,
    )
    max_group_size: int = _count_option(
        3,
        "largest number of operators per group (the paper's r); 0 means no limit",
        "Search",
        check=validation.search_limit,
    )
    cache_dir: str | os.PathLike[str] | None = _option(
        None,
        "directory of the cached schedules and latencies, on any filesystem that "
        "TensorFlow supports",
        "Schedule cache",
        metavar="DIR",
        default_text="$IOS_TF_CACHE, or ios_tf in $XDG_CACHE_HOME or ~/.cache",
    )
    progress: bool = _option(
        False, "show progress on standard error", "Messages", flag=None
    )


class _Callers:
    """The property of options with numbers of callers."""

    callers: Any

    @property
    def caller_counts(self) -> list[int]:
        """The numbers of callers, in ascending order."""
        return cast("list[int]", self.callers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnableOptions(SearchOptions):
    """The options of `enable` and `session_config`."""

    on_miss: OnMiss = _option(
        "skip",
        'what happens to a block without a schedule in the cache. "skip": TensorFlow '
        "runs the block's region until the cache has a schedule, and the block is "
        "written to `cache_dir`/pending for `ios_tf tune`. (A chain of operators has "
        "only one possible schedule, so the engine runs the chain with this schedule "
        'at once.) "greedy": the engine runs the block with the greedy schedule, and '
        'the block is written to pending, too. "search": the dynamic program (paper, '
        "section 4) searches for the block's schedule at once, on this machine",
        "Search",
        check=_on_miss,
    )
    batch_size: int = _option(
        1,
        "the batch size to schedule for: replaces unknown leading dimensions of inputs",
        "Sizes and device",
        check=validation.whole,
    )
    callers: int = _option(
        1,
        "the number of callers to schedule for (see `callers` of `convert`). The cache "
        "has separate schedules for each number",
        "Many callers",
        check=validation.caller_count,
    )
    precision: PrecisionName = _option(
        "float32",
        "the type that regions of float32 and float16 operators compute in on a CPU: "
        "float32; bfloat16, which needs a processor with bfloat16 arithmetic; or auto "
        "(bfloat16 on such a processor, else float32). Nothing checks the outputs, so "
        "measure the accuracy of your model yourself. `convert` checks it",
        "Search",
        check=_precision,
    )
    progress: bool = _same(SearchOptions, "progress", default=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuringOptions(SearchOptions):
    """The options of functions that always measure."""

    warmup_runs: int = _count_option(
        2,
        "unmeasured runs before the measurements of a latency",
        "Measurements",
        check=validation.warmup_runs,
    )
    runs: int = _count_option(
        3, "runs per measurement", "Measurements", check=validation.measured_runs
    )
    sample_count: int = _count_option(
        3,
        "measurements per latency; the latency is their median. If the measurements "
        "differ much, more are made",
        "Measurements",
        check=validation.measured_runs,
    )
    winograd: bool = _option(
        True,
        "whether convolutions may use Winograd's minimal filtering on a CPU if "
        "measurements show that it is faster. Its rounding errors differ from "
        "TensorFlow's",
        "Search",
    )
    ray: str | None = _option(
        None,
        "address of a Ray cluster whose devices measure the latencies of blocks: auto, "
        "HOST:PORT or ray://HOST:PORT",
        "Several machines",
        check=_optional(validation.name_of),
        metavar="ADDRESS",
        default_text="this machine measures",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneOptions(MeasuringOptions):
    """The options of `tune`."""

    cache_dir: str | os.PathLike[str] | None = field(
        default=SearchOptions.cache_dir,
        kw_only=False,
        metadata=_same(SearchOptions, "cache_dir").metadata,
    )
    device: str = _option(
        "cpu",
        "device that the engine measures on: cpu, gpu, or gpu:1 for the GPU with "
        "number 1 in CUDA. Append ,tf32=off to switch TF32 off, as in gpu:1,tf32=off",
        "Sizes and device",
        check=validation.engine_device,
        metavar="DEVICE",
    )
    fingerprint: str | None = _option(
        None,
        "fingerprint of the devices to use in the Ray cluster, as `ios_tf cache list` "
        "prints it",
        "Several machines",
        check=_optional(validation.name_of),
        metavar="NAME",
        default_text="that of the cluster's first device",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fingerprint and not self.ray:
            raise UserError(
                f"fingerprint={self.fingerprint} selects devices of a Ray cluster. "
                "Give the address of the cluster with ray"
            )


BFLOAT16_ON_GPU = (
    'precision="bfloat16" is supported only on a CPU. Use precision="float32", or '
    "convert a model whose own type is bfloat16"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(_Callers, MeasuringOptions):
    """The options of `convert` and `optimize`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision == "bfloat16" and self.device.startswith("gpu"):
            raise UserError(BFLOAT16_ON_GPU)

    batch_size: int | Sequence[int] = _option(
        1,
        "one or more batch sizes to schedule for, such as 1,8,32, if the model's "
        "batch size is dynamic. A batch of another size runs with the schedule of "
        "the nearest of these sizes (by ratio; the smaller one if two are equally "
        "near)",
        "Sizes and device",
        check=validation.batch_sizes,
        parse=_numbers,
        metavar="N,M",
    )
    callers: int | Sequence[int] = _option(
        1,
        "one or more numbers of callers to schedule for, such as 1,8. For N callers, "
        "latencies are measured while N calls use the CPU's cores at the same time. "
        "When the model is called, the engine counts the calls in progress, and uses "
        "the schedule for the nearest of these numbers (by ratio)",
        "Many callers",
        check=validation.callers,
        parse=_numbers,
        metavar="N,M",
    )
    image_size: int | Sequence[int] = _option(
        USUAL_IMAGE_SIZE,
        "the height and width to schedule for, or one number for both, if the model "
        "accepts several image sizes. The result still accepts images of all sizes",
        "Sizes and device",
        check=validation.image_size,
        parse=_numbers,
        metavar="H,W",
    )
    device: str = _option(
        "auto",
        "the device to schedule for: cpu; gpu (TensorFlow's first GPU); gpu:1 (its "
        "second GPU, which is then the only one that TensorFlow uses); or auto (a "
        "GPU if the machine has one and the CUDA libraries can be loaded, else the "
        "CPU)",
        "Sizes and device",
        check=validation.device_name,
        metavar="DEVICE",
    )
    strategy: StrategyName = _option(
        "auto",
        "how schedules are found: auto (stages are concurrent or merged, and batches "
        "may be split), parallel (only concurrent stages), merge (only merged "
        "stages), greedy or sequential (fixed rules, without a search)",
        "Search",
        check=_strategy,
        choices=STRATEGIES,
    )
    time_limit: float = _option(
        300.0,
        "search time limit in seconds; 0 means no limit. At the limit, the best "
        "schedules so far are used. The first three candidates for each block's "
        "schedule are always measured, even if this takes longer",
        "Search",
        check=validation.seconds,
        parse=_decimal,
        metavar="SECONDS",
    )
    precision: PrecisionName = _option(
        "float32",
        "the type that float32 and float16 operators compute in on a CPU: float32; "
        "bfloat16, which needs a processor with bfloat16 arithmetic; or auto (bfloat16 "
        "on such a processor, else float32). Inputs and outputs keep their types. "
        "Operators whose rounding "
        "would exceed max_error compute in float32",
        "Search",
        check=_precision,
        choices=PRECISIONS,
    )
    max_error: float = _option(
        0.01,
        "the largest difference that bfloat16 may make to an output, divided by the "
        "output's largest value. It is measured with the inputs for comparisons or "
        "with your samples. Ignored with precision=float32",
        "Search",
        check=validation.error_bound,
        parse=_decimal,
        metavar="ERROR",
    )
    group_patterns: Sequence[str] = _option(
        (),
        "regular expressions. Operators whose names match the same expression, with "
        "the same text in its capture groups, are scheduled as one operator",
        "Search",
        check=validation.patterns,
        flag="group",
        metavar="REGEX",
        repeated=True,
    )
    block_end_patterns: Sequence[str] = _option(
        (),
        "regular expressions. A block ends with each operator whose name matches",
        "Search",
        check=validation.patterns,
        flag="block_end",
        metavar="REGEX",
        repeated=True,
    )
    samples: Any = _option(
        None,
        "real inputs to compare and time the model with: the path of a .npz file with "
        "an array for each input, of a directory of such files or of images, or of a "
        ".tfrecord file of tf.Examples or PredictionLogs; in Python also a mapping "
        "from names of inputs to arrays whose first dimension counts samples, a list "
        "of such mappings, or an array",
        "Measurements",
        metavar="PATH",
        default_text="the model's own warmup requests "
        "(assets.extra/tf_serving_warmup_requests), or random inputs",
    )
    fresh: bool = _option(
        False,
        "search and measure again, without the schedules and latencies in the cache",
        "Schedule cache",
    )
    keep_slower: bool = _option(
        False,
        "convert all regions and the whole model, even if they are not faster than "
        "TensorFlow on this machine. This is meant for experiments. The strategies "
        "greedy and sequential always do this",
        "Result",
    )
    log: Callable[[str], None] = _option(
        _ignore,
        "called with lines of information about the model",
        "Messages",
        flag=None,
    )

    @property
    def batch_sizes(self) -> list[int]:
        """The batch sizes for which schedules are made, in ascending order."""
        return cast("list[int]", self.batch_size)

    @property
    def height_and_width(self) -> tuple[int, int]:
        """The height and width of images if the signature does not give their size."""
        return cast("tuple[int, int]", self.image_size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizeOptions(ModelOptions):
    """The options of `optimize`."""

    batch_size: int | Sequence[int] = field(
        default=ModelOptions.batch_size,
        kw_only=False,
        metadata=_same(ModelOptions, "batch_size").metadata,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions(ModelOptions):
    """The options of `convert`."""

    tags: Sequence[str] | None = _option(
        None,
        "tags of the MetaGraph, such as serve,gpu, if a SavedModel has several",
        "Model",
        check=_optional(validation.strings),
        parse=functools.partial(validation.listed, "tags"),
        metavar="A,B",
    )
    signatures: Sequence[str] | None = _option(
        None,
        "the signatures to convert. Other signatures keep their original graph",
        "Model",
        check=_optional(validation.strings),
        flag="signature",
        metavar="NAME",
        repeated=True,
        default_text="all signatures",
    )
    weights: str | None = _option(
        None,
        "trained weights for a model keras:NAME. Keras downloads the weights imagenet",
        "Model",
        choices=("imagenet",),
        default_text="random weights",
    )
    overwrite: bool = _option(
        False, "replace the output if it is a SavedModel", "Result"
    )
    again: bool = _option(
        False,
        "repeat a conversion that was undecided because the machine was busy: "
        "replaces the output, reuses good measurements and repeats disturbed ones",
        "Result",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchOptions(_Callers, _Checked):
    """The options of `ios_tf bench`."""

    batch_size: int = _count_option(
        1,
        "batch size to use if the model's is dynamic",
        "Sizes and device",
        check=validation.whole,
    )
    device: str = _same(ModelOptions, "device")
    tags: Sequence[str] | None = _same(ConvertOptions, "tags")
    signature: str | None = _option(
        None,
        "signature to call",
        "Model",
        metavar="NAME",
        default_text="serving_default or the only one",
    )
    weights: str | None = _same(ConvertOptions, "weights")
    inputs: Sequence[str] = _option(
        (),
        "the values of an input as FILE.npy, or the shape of random values, such as "
        "image=1,224,224,3",
        "Measurements",
        check=validation.strings,
        flag="input",
        metavar="NAME=VALUE",
        repeated=True,
        default_text="random values for a batch of --batch_size",
    )
    strategies: Sequence[StrategyName] | None = _option(
        None,
        "strategies to measure. Not allowed with --callers",
        "Measurements",
        check=_optional(_strategies),
        parse=functools.partial(validation.listed, "strategies"),
        metavar="A,B",
        default_text=",".join(SLOWEST_FIRST),
    )
    rounds: int = _count_option(
        10, "rounds of measurements", "Measurements", check=validation.whole
    )
    callers: int | Sequence[int] | None = _option(
        None,
        "numbers of callers, such as 1,2,8,32: measure how many images per second "
        "the model processes, and how long a call takes, if this many threads of one "
        "process call the model at once",
        "Many callers",
        check=_optional(validation.callers),
        parse=_numbers,
        metavar="N,M",
    )
    rate: float | None = _option(
        None,
        "calls per second, which arrive at random times. A latency then includes the "
        "time that a call waits for a free caller. Needs a single number of callers",
        "Many callers",
        check=_optional(validation.rate),
        parse=_decimal,
        metavar="CALLS",
        default_text="each caller calls again as soon as it has its answer",
    )
    batching: bool = _option(
        False,
        "also measure models behind TensorFlow's own batching, which combines "
        "waiting calls into one batch",
        "Many callers",
    )
    seconds: float = _option(
        2.0,
        "duration in seconds of one measurement of one framework",
        "Many callers",
        check=validation.duration,
        parse=_decimal,
        metavar="SECONDS",
    )
    cache_dir: str | os.PathLike[str] | None = _same(SearchOptions, "cache_dir")
    progress: bool = _same(SearchOptions, "progress")
    log: Callable[[str], None] = _same(ModelOptions, "log")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.callers is None and (self.rate is not None or self.batching):
            name = "batching" if self.rate is None else "rate"
            raise UserError(f"{name} needs a number of callers, such as --callers=8")
        if self.rate is not None and len(self.caller_counts) > 1:
            numbers = ",".join(map(str, self.caller_counts))
            raise UserError(
                f"rate needs a single number of callers, not callers={numbers}"
            )
        if self.callers is not None and self.strategies is not None:
            raise UserError(
                "--strategies cannot be used with --callers. Leave out --strategies"
            )


def command_flags(options: Any) -> list[str]:
    """The flags that give these options. Options with default values have no flag."""
    words = []
    for name, option in options_of(type(options)).items():
        value = getattr(options, name)
        default = option.check(name, getattr(type(options), name))
        if option.flag is None or value == default:
            continue
        flag = f"--{option.flag or name}"
        if option.repeated:
            words += [f"{flag}={element}" for element in value]
        elif isinstance(value, bool):
            words.append(flag if value else f"{flag}=off")
        else:
            words.append(f"{flag}={_flag_value(value)}")
    return words


def _flag_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def options_of(options: Any) -> dict[str, Option]:
    """Returns the options of a class by name, in the order of their groups.

    Within a group, the options that the class adds to its base class come first.
    """
    found = {f.name: f.metadata[_KEY] for f in dataclasses.fields(options)}
    names = [name for base in options.__mro__ for name in inspect.get_annotations(base)]
    return {
        name: found[name]
        for group in GROUPS
        for name in dict.fromkeys(names)
        if name in found and found[name].group == group
    }


def default_text(options: Any, name: str, default: Any = None) -> str | None:
    """Describes an option's default value; None if the option is off by default.

    `default` replaces the default value of the class.
    """
    option = options_of(options)[name]
    default = getattr(options, name) if default is None else default
    if default is None or default == () or callable(default):
        return option.default_text
    if isinstance(default, bool):
        return "on" if default else None
    if isinstance(default, tuple):
        return ",".join(map(str, default if len({*default}) > 1 else default[:1]))
    return f"{default:g}" if isinstance(default, float) else str(default)


# Type variables for with_options: the arguments before the options, and the result.
_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_Options = TypeVar("_Options")
_Options_co = TypeVar("_Options_co", covariant=True)


class _OfModel(Protocol[_P, _R_co]):
    def __call__(
        self, model_or_function: Any, *args: _P.args, **kwargs: _P.kwargs
    ) -> _R_co: ...


class _ToOutput(Protocol[_P, _R_co]):
    def __call__(
        self,
        model: Any,
        output: str | os.PathLike[str],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R_co: ...


class _Decorator(Protocol[_P, _Options_co]):
    @overload
    def __call__(
        self, function: Callable[[_Options_co], _R], /
    ) -> Callable[_P, _R]: ...
    @overload
    def __call__(
        self, function: Callable[[Any, _Options_co], _R], /
    ) -> _OfModel[_P, _R]: ...
    @overload
    def __call__(
        self, function: Callable[[Any, str | os.PathLike[str], _Options_co], _R], /
    ) -> _ToOutput[_P, _R]: ...


def with_options(options: Callable[_P, _Options]) -> _Decorator[_P, _Options]:
    """Replaces a function's last parameter, `options`, by the fields of a class.

    The result has a signature with all options, for type checkers and for `help`. The
    line "{options}" of its docstring becomes the descriptions of the options. It raises
    UserError for an argument with an old name.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        name, signature = function.__name__, _signature(function, options)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            check_argument_names(kwargs)
            try:
                given = dict(signature.bind(*args, **kwargs).arguments)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
            names = options_of(options)
            chosen = {key: given.pop(key) for key in names if key in given}
            return function(**given, options=cast(Any, options)(**chosen))

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {
            parameter.name: parameter.annotation
            for parameter in signature.parameters.values()
        } | {"return": signature.return_annotation}
        if function.__doc__:
            call.__doc__ = function.__doc__.replace(
                "      {options}\n", argument_descriptions(options)
            )
        return call

    return cast("_Decorator[_P, _Options]", decorate)


def _signature(function: Callable[..., Any], options: Any) -> inspect.Signature:
    """The signature of `function` with the options in place of its last parameter."""
    signature = inspect.signature(function)
    before = list(signature.parameters.values())[:-1]
    types = typing.get_type_hints(options)
    constructor = inspect.signature(options).parameters
    parameters = [
        constructor[name].replace(annotation=types[name])
        for name in options_of(options)
    ]
    parameters.sort(key=lambda parameter: parameter.kind)
    return signature.replace(parameters=[*before, *parameters])


def argument_descriptions(options: Any) -> str:
    """Describes the options as in the "Args" of a docstring."""
    lines = []
    for name, option in options_of(options).items():
        text = f"{name}: {option.help}."
        if option.default_text:
            text += f" By default {option.default_text}."
        lines += textwrap.wrap(
            text, 88, initial_indent=" " * 6, subsequent_indent=" " * 8
        )
    return "\n".join(lines) + "\n"
