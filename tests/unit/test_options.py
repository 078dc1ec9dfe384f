"""Functions, commands and documents have the options of ios_tf/options.py."""

import inspect
import re

import numpy as np
import pytest

from ios_tf import UserError, options
from ios_tf.cli.main import main
from ios_tf.options import ConvertOptions, options_of
from tests import options_page

FUNCTIONS = options_page._FUNCTIONS


@options.with_options(ConvertOptions)
def convert(model, output, options):
    """Converts.

    Args:
      {options}
    """
    return model, output, options


@options.with_options(options.TuneOptions)
def tune(options):
    return options


def test_the_page_is_current():
    """If this fails, run python -m tests.options_page."""
    assert options_page.PAGE.read_text() == options_page.page()


@pytest.mark.parametrize("options", FUNCTIONS.values())
def test_every_option_has_a_description(options):
    for name, option in options_of(options).items():
        assert option.help and not option.help.endswith("."), name


def test_signature_and_docstring():
    parameters = inspect.signature(convert).parameters
    assert list(parameters) == ["model", "output", *options_of(ConvertOptions)]
    for name in options_of(ConvertOptions):
        assert parameters[name].default == getattr(ConvertOptions, name)
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n      {name}: " in convert.__doc__
    assert parameters["weights"].annotation == str | None


def test_arguments_become_options():
    model, output, found = convert(
        "m", output="out", batch_size=(8, 1), runs=np.int8(5)
    )
    assert (model, output, found.batch_size, found.runs) == ("m", "out", [1, 8], 5)
    assert found.max_groups == 8
    assert tune("somewhere").cache_dir == "somewhere"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"unknown": 1}, TypeError, "convert.. got an unexpected keyword argument"),
        ({"units": "a"}, UserError, "the option units is now called group_patterns"),
        (
            {"strategy": "both"},
            UserError,
            "the value 'both' of strategy is now called 'auto'",
        ),
        ({"strategy": "best"}, UserError, "strategy must be one of auto, parallel"),
        (
            {"precision": "bfloat16", "device": "gpu:1"},
            UserError,
            'precision="bfloat16" is supported only on a CPU',
        ),
        ({"strategy": None}, UserError, "strategy must be one of auto, parallel"),
        ({"batch_size": ()}, UserError, "batch_size must list at least one"),
        ({"batch_size": "8"}, UserError, "batch_size must be a whole number"),
        ({"batch_size": (8, 1, 8)}, UserError, "batch_size lists 8 more than once"),
        ({"image_size": (1, 2, 3)}, UserError, "image_size must be a height and"),
        ({"image_size": "224"}, UserError, "image_size must be a height and"),
        ({"image_size": (224, 0)}, UserError, "image_size must be a whole number"),
        ({"device": "tpu"}, UserError, "device must be auto, cpu, gpu"),
        ({"max_groups": -1}, UserError, "max_groups must be a whole number >= 0"),
        ({"runs": 2_000_000}, UserError, "runs must be a whole number <= 1000000"),
        ({"time_limit": "5"}, UserError, "time_limit must be at least 0 seconds"),
        ({"group_patterns": "("}, UserError, "'.' is not a regular expression"),
        ({"tags": 5}, UserError, "tags must be a string or a list of strings"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        convert("m", "out", **arguments)


@pytest.mark.parametrize("value", [8, [8], np.int64(8), np.array(8), np.array([8])])
def test_batch_sizes(value):
    assert ConvertOptions(batch_size=value).batch_sizes == [8]


@pytest.mark.parametrize("value", [9, (9, 9), np.array([9, 9]), np.int64(9)])
def test_image_sizes(value):
    assert ConvertOptions(image_size=value).height_and_width == (9, 9)


@pytest.mark.parametrize("command", ["convert", "tune", "bench"])
def test_help_describes_every_flag(command, capsys):
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, option in options_of(FUNCTIONS[command]).items():
        if option.flag is None:
            assert f"--{name}" not in text
            continue
        assert re.search(rf"--{option.flag or name}\b", text)
        # The help breaks lines after hyphens, too.
        assert option.help.replace(" ", "") in text.replace(" ", ""), name


def test_command_line(monkeypatch, tmp_path):
    words = "convert MODEL OUTPUT --group=a --group=b --winograd=off --time_limit=2.5 "
    words += "--batch_size=8,1 --image_size=9 --fresh --signature=s --tags=a,b"
    given = {}

    def fake(model, output, **arguments):
        given.update(arguments)
        raise UserError("stopped")

    monkeypatch.setattr("ios_tf.conversion.convert.convert", fake)
    assert main([*words.split(), f"--cache_dir={tmp_path}"]) == 1
    found = ConvertOptions(**given)
    assert found.group_patterns == ("a", "b")
    assert found.winograd is False and found.fresh is True and found.again is False
    assert (found.time_limit, found.batch_sizes) == (2.5, [1, 8])
    assert (found.height_and_width, found.signatures) == ((9, 9), ["s"])
    assert (found.tags, found.cache_dir) == (["a", "b"], str(tmp_path))
    assert found.max_groups == 8 and found.device == "auto"


def test_flags_that_repeat_a_command():
    words = ["--signature=s", "--batch_size=2", "--input=a=1,2", "--input=b=3"]
    words += ["--strategies=greedy,auto", "--rounds=5"]
    given = options.BenchOptions(
        signature="s",
        batch_size=2,
        inputs=["a=1,2", "b=3"],
        strategies=["greedy", "auto"],
        rounds=5,
        progress=True,
        log=print,
    )
    assert options.command_flags(given) == words
    words = ["--callers=8", "--rate=0.5", "--batching", "--seconds=1"]
    given = options.BenchOptions(callers=8, rate=0.5, batching=True, seconds=1)
    assert options.command_flags(given) == words
    assert options.command_flags(ConvertOptions(winograd=False)) == ["--winograd=off"]
    assert options.command_flags(ConvertOptions()) == []
