"""The command line reports bad input in one line with an exit code, writing nothing."""

import json
import os
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import prepared_python
import pytest
import tensorflow as tf
from commands import run, run_prepared, run_python
from keras import layers

import ios_tf
from ios_tf.conversion import bench, phases
from ios_tf.model import loading
from ios_tf.options import BenchOptions

FAST = ["--warmup_runs=0", "--runs=1", "--sample_count=1", "--keep_slower"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """An empty cache, so that no test sees the schedules of this machine's user."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("IOS_TF_CACHE", str(directory))
    return directory


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    """A SavedModel with two branches that may merge."""
    path = str(tmp_path_factory.mktemp("network") / "model")
    inputs = keras.Input((9, 9, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(4, 1, padding="same", activation="relu")(inputs)
    outputs = layers.Dense(3)(layers.GlobalAveragePooling2D()(a + b))
    keras.Model(inputs, outputs).export(path, verbose=False)
    return path


@pytest.fixture(scope="module")
def dense(tmp_path_factory) -> str:
    """A SavedModel without a convolution."""
    path = str(tmp_path_factory.mktemp("dense") / "model")
    inputs = keras.Input((4,))
    keras.Model(inputs, layers.Dense(3)(inputs)).export(path, verbose=False)
    return path


def test_default_strategy_that_loses_is_mentioned():
    def notes(default, other):
        rows = [
            bench.Row(name, milliseconds, 0.0)
            for name, milliseconds in (
                ("TensorFlow", [9.0] * 30),
                ("parallel", other),
                ("auto", default),
            )
        ]
        options = BenchOptions()
        return bench.Result(
            model="m",
            signature="s",
            device="d",
            batch_size=1,
            options=options,
            rows=rows,
        ).notes()

    assert notes([1.0] * 30, [1.1] * 30) == []
    assert notes([1.0] * 30, [1.0] * 30) == []
    (note,) = notes([1.2] * 30, [1.0] * 30)
    assert note.startswith("auto, the default strategy, took 20.0% longer than para")
    assert note.endswith("--strategy=parallel")
    noisy = [1.0, 1.3] * 15
    (note,) = notes(noisy[::-1], [*noisy[:-2], 1.0, 1.0])
    assert "within the noise" in note and "0.77 to 1.30" in note


def assert_fails(
    result: tuple[int, str, str], code: int, message: str, directory
) -> None:
    assert result[0] == code, result
    lines = result[2].splitlines()
    assert len(lines) == 1, result
    assert lines[0].startswith("ios_tf"), result
    assert message in lines[0], result
    assert os.listdir(directory) == []


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch_size=0", "--batch_size"),
        ("--batch_size=-1", "--batch_size"),
        ("--batch_size=one", "--batch_size"),
        ("--batch_size=1,0", "--batch_size"),
        ("--batch_size=1,,8", "--batch_size"),
        (
            "--batch_size=8,1,8",
            "--batch_size: batch_size lists 8 more than once",
        ),
        (f"--batch_size={10**23}", "whole number <= 2147483647"),
        (f"--warmup_runs={'9' * 5000}", "must be a whole number"),
        ("--runs=0", "--runs"),
        ("--sample_count=0", "--sample_count"),
        ("--max_groups=-1", "--max_groups"),
        ("--strategy=best", "--strategy"),
        ("--device=tpu", "--device"),
        ("--tags=", "argument --tags: tags must be words separated by commas, not ''"),
        ("--tags=serve,", "argument --tags"),
        ("--group=(", "argument --group: '(' is not a regular expression: missing )"),
        ("--block_end=*", "argument --block_end: '*' is not a regular expression"),
        ("--unknown", "--unknown"),
        ("--verbosity=loud", "--verbosity"),
    ],
)
def test_wrong_usage(capfd, tmp_path, flag, message):
    result = run(capfd, "convert", "keras:MobileNetV2", str(tmp_path / "out"), flag)
    assert_fails(result, 2, message, tmp_path)


def test_batch_that_no_memory_holds(capfd, tmp_path, network):
    output = str(tmp_path / "out")
    result = run(capfd, "convert", network, output, f"--batch_size={10**9}")
    message = (
        "at batch size 1000000000 has tensors of 1207.0 GiB, and there is not enough"
    )
    assert_fails(result, 1, message, tmp_path)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("convert MODEL OUTPUT --unknown", "convert"),
        ("cache list more", "cache list"),
        ("bench MODEL --batch_size", "bench"),
    ],
)
def test_wrong_usage_names_the_help_of_its_command(capfd, tmp_path, words, command):
    result = run(capfd, *words.split())
    assert_fails(result, 2, f"(ios_tf {command} --help)", tmp_path)


def test_no_command(capfd, tmp_path):
    assert_fails(run(capfd), 2, "COMMAND", tmp_path)


def test_model_that_does_not_exist(capfd, tmp_path):
    result = run(capfd, "convert", "/no/such/model", str(tmp_path / "out"))
    assert_fails(result, 1, "/no/such/model: no such file or directory", tmp_path)


def test_directory_that_is_no_saved_model(capfd, tmp_path, cache):
    result = run(capfd, "convert", str(cache), str(tmp_path / "out"))
    assert_fails(result, 1, "not a SavedModel", tmp_path)


def test_broken_saved_model(capfd, tmp_path, cache):
    (cache / "saved_model.pb").write_bytes(b"\xff broken")
    result = run(capfd, "convert", str(cache), str(tmp_path / "out"))
    assert_fails(result, 1, "cannot be loaded", tmp_path)


def test_broken_keras_file(capfd, tmp_path, cache):
    (cache / "model.keras").write_bytes(b"broken")
    result = run(capfd, "convert", str(cache / "model.keras"), str(tmp_path / "out"))
    assert_fails(
        result,
        1,
        "model.keras, because the file is not a zip archive",
        tmp_path,
    )


def test_keras_file_of_an_unknown_class(capfd, tmp_path, cache):
    class Mine(layers.Layer):
        def call(self, x):
            return x

    path = str(cache / "model.keras")
    inputs = keras.Input((4,))
    keras.Model(inputs, Mine()(inputs)).save(path)
    result = run(capfd, "convert", path, str(tmp_path / "out"))
    assert_fails(result, 1, "model.keras: Could not locate class", tmp_path)


def test_keras_model_that_cannot_be_traced():
    inputs = keras.Input((None, None, 3))
    outputs = layers.UpSampling2D(interpolation="bilinear")(inputs)
    with pytest.raises(ios_tf.UserError, match=r"calling UpSampling2D.call\(\). Using"):
        ios_tf.optimize(keras.Model(inputs, outputs))


@pytest.mark.parametrize("name", ["model.keras", "saved_model.pb"])
def test_pipes_as_models(capfd, tmp_path, cache, name):
    os.mkfifo(cache / name)
    model = cache if name == "saved_model.pb" else cache / name
    result = run(capfd, "convert", str(model), str(tmp_path / "out"))
    assert_fails(result, 1, "is not a regular file", tmp_path)


@pytest.mark.parametrize("place", ["model", "output"])
def test_filesystems_that_tensorflow_does_not_know(capfd, tmp_path, network, place):
    url = "nosuch://host/model"
    output = str(tmp_path / "out")
    words = [url, output] if place == "model" else [network, url]
    result = run(capfd, "convert", *words)
    assert_fails(result, 1, "nosuch://host/model cannot be", tmp_path)


def test_outputs_without_a_name(capfd, tmp_path, network):
    result = run(capfd, "convert", network, "")
    assert_fails(result, 1, "output must be a path", tmp_path)


def test_models_without_a_name(capfd, tmp_path):
    result = run(capfd, "convert", "", str(tmp_path / "out"))
    assert_fails(result, 1, "model must be a path, not ''", tmp_path)


def test_models_of_an_empty_file(capfd, tmp_path, cache):
    model = cache / "model"
    model.mkdir()
    (model / "saved_model.pb").touch()
    result = run(capfd, "convert", str(model), str(tmp_path / "out"))
    assert_fails(result, 1, "is not a SavedModel (it has no MetaGraph)", tmp_path)


def test_line_ends_in_names_of_files_are_spaces(capfd, tmp_path):
    result = run(capfd, "show", str(tmp_path / "two\nlines"))
    assert_fails(result, 1, "two lines: no such file or directory", tmp_path)


def test_outputs_with_unusual_names(capfd, tmp_path, network):
    output = str(tmp_path / "a*? ü")
    assert run(capfd, "convert", network, output, *FAST)[0] == 0
    assert os.listdir(tmp_path) == ["a*? ü"]
    tf.saved_model.load(output)
    shutil.rmtree(output)
    result = run(capfd, "convert", network, str(tmp_path / "a[1]"))
    assert_fails(result, 1, "a[1]: TensorFlow cannot load a model from", tmp_path)


def test_keras_name_that_does_not_exist(capfd, tmp_path):
    result = run(capfd, "convert", "keras:InceptionV33", str(tmp_path / "out"))
    assert_fails(result, 1, "InceptionV3", tmp_path)


def test_weights_of_a_saved_model(capfd, tmp_path, network):
    result = run(capfd, "convert", network, str(tmp_path / "out"), "--weights=imagenet")
    assert_fails(result, 1, "can only be used with a model keras:NAME", tmp_path)


def test_keras_model_of_one_batch_size():
    """Keras exports the model for any batch; the user chooses which to schedule for."""
    lines = []
    for shape in ((4, 9, 9, 3), (None, 9, 9, 3)):
        inputs = keras.Input(batch_shape=shape)
        model = keras.Model(inputs, layers.Conv2D(4, 3)(inputs), name="four")
        with loading.saved_model(model, log=lines.append):
            pass
    (line,) = lines
    assert (
        "'four' has the fixed batch size 4, but is exported for any batch size" in line
    )


def test_signature_that_does_not_exist(capfd, tmp_path, network):
    result = run(capfd, "convert", network, str(tmp_path / "o"), "--signature=predict")
    assert_fails(result, 1, "'predict'. The model has serve, serving_defa", tmp_path)


def test_saved_model_without_signatures(capfd, tmp_path, cache):
    tf.saved_model.save(tf.Module(), str(cache / "empty"))
    result = run(capfd, "convert", str(cache / "empty"), str(tmp_path / "out"))
    assert_fails(
        result, 1, "no signatures. The SavedModel also has no functions", tmp_path
    )
    module = tf.Module()
    spec = [tf.TensorSpec([None, 8, 8, 3], name="x")]
    module.features = tf.function(lambda x: x[:, ::2], input_signature=spec)
    module.other = tf.function(lambda x: x + 1, input_signature=spec)
    tf.saved_model.save(module, str(cache / "hub"))
    result = run(capfd, "convert", str(cache / "hub"), str(tmp_path / "out"))
    call = "loaded.features.get_concrete_function(tf.TensorSpec(SHAPE, DTYPE))"
    assert_fails(result, 1, f"ios_tf.optimize({call})", tmp_path)
    with pytest.raises(ios_tf.UserError, match=r"no signatures.*signatures=loaded"):
        ios_tf.optimize(tf.saved_model.load(str(cache / "hub")))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["m.tflite"], "m.tflite is a TensorFlow Lite model"),
        (["m.onnx"], "m.onnx is an ONNX model"),
        (["frozen.pb"], "frozen.pb is a frozen graph"),
        (["saved_model.pb"], "the graph of a SavedModel. Give the directory"),
        (["m.ckpt-5.index"], "a checkpoint"),
        (["m.weights.h5"], "weights without a model"),
        (["m", "m.index"], "a checkpoint"),
        (["d/checkpoint", "d/m-1.index"], "d is a checkpoint"),
        (["d/1/saved_model.pb", "d/12/saved_model.pb"], "Give one of them, d/12"),
        (["d/model.onnx"], "d is an ONNX model"),
        (["d/photo.jpg"], "is not a SavedModel (it has no saved_model.pb)"),
        (["photo.jpg"], "is not a SavedModel directory, a .keras or .h5 file"),
    ],
)
def test_models_of_other_kinds_are_recognised(
    names, message, capfd, tmp_path, cache, monkeypatch
):
    monkeypatch.chdir(cache)
    for name in names[names[0] == "m" :]:  # a checkpoint's prefix is not a file
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        (cache / name).write_bytes(b"x")
    model = names[0].partition("/")[0]
    result = run(capfd, "convert", model, str(tmp_path / "out"))
    assert_fails(result, 1, message, tmp_path)


@keras.saving.register_keras_serializable()
class Twice(layers.Layer):
    def call(self, x):
        return 2 * x


@pytest.mark.parametrize("ending", [".keras", ".h5"])
@pytest.mark.parametrize("layer", [Twice, lambda: layers.Lambda(lambda x: 2 * x)])
def test_code_that_the_command_line_does_not_have(
    ending, layer, capfd, tmp_path, cache
):
    path = str(cache / f"model{ending}")
    inputs = keras.Input((8, 8, 3))
    keras.Model(inputs, layer()(inputs)).save(path)
    capfd.readouterr()
    registered = keras.saving.get_custom_objects()
    before = dict(registered)
    registered.clear()
    try:
        result = run(capfd, "convert", path, str(tmp_path / "out"))
    finally:
        registered.update(before)
    assert_fails(result, 1, "call model.export(DIRECTORY), and convert", tmp_path)


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_files_that_cannot_be_read_are_not_called_missing(
    name, capfd, tmp_path, cache, network
):
    model = shutil.copytree(network, cache / "model")
    file = os.path.join(model, "variables", name)
    os.remove(file)
    os.symlink(name, file)  # a link to itself: even root cannot read it
    result = run(capfd, "convert", str(model), str(tmp_path / "out"))
    assert_fails(result, 1, f"{file} cannot be read: Too many levels of", tmp_path)
    shutil.rmtree(os.path.dirname(file))
    result = run(capfd, "convert", str(model), str(tmp_path / "out"))
    assert_fails(result, 1, "the files of its variables are missing", tmp_path)


def test_a_cache_that_is_a_file_is_one_error(capfd, tmp_path, cache, monkeypatch):
    (cache / "file").write_text("")
    for below in ("", "/below/it"):
        path = f"{cache}/file{below}"
        monkeypatch.setenv("IOS_TF_CACHE", path)
        for name in ("cache_dir", "IOS_TF_CACHE"):
            flags = [f"--cache_dir={path}"] if name == "cache_dir" else []
            words = ["convert", "keras:MobileNet", str(tmp_path / "out"), *flags]
            message = f"{name}={path!r}: {cache}/file is not a directory"
            assert_fails(run(capfd, *words), 1, message, tmp_path)


@pytest.mark.parametrize("mebibytes", [600, 1150, 1200, 1293, 1300, 1304, 1305, 1465])
def test_a_limit_of_the_address_space_is_one_line(mebibytes):
    command = [sys.executable, "-m", "ios_tf", "cache", "list"]
    size = mebibytes << 20
    done = subprocess.run(
        ["prlimit", f"--as={size}", *command], capture_output=True, text=True
    )
    if done.returncode:  # with many cores, the memory is not enough
        assert done.returncode == 1, done
        (line,) = done.stderr.splitlines()
        assert line.startswith("ios_tf: error: "), done
        assert f"address space {size >> 10} KiB (ulimit -v)" in line


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("os.abort()", 1, "said\n"),
        ("ctypes.CDLL(None).exit(3)", 3, "said\n"),
        ("pass", 0, ""),
        ("engine.exit_on_abort(None); ctypes.CDLL(None).exit(3)", 3, ""),
        ("os.fork() or ctypes.CDLL(None).exit(3); os.wait()", 0, ""),
    ],
)
def test_aborts_of_native_code_are_one_line(end, code, said):
    script = "import ctypes, os; from ios_tf.native import engine; "
    script += f"engine.exit_on_abort('said\\n'); {end}"
    assert run_python("-c", script, status=code).stderr == said


def test_unwritable_output(capfd, tmp_path, network):
    code, _, error = run(capfd, "convert", network, "/proc/no/model")
    assert code == 1
    assert "/proc/no/model cannot be written" in error
    assert len(error.splitlines()) == 1


def test_existing_output(capfd, tmp_path, network, dense):
    output = str(tmp_path / "out")
    assert run(capfd, "convert", dense, output)[0] == 0
    before = os.stat(output).st_mtime_ns
    code, _, error = run(capfd, "convert", network, output)
    assert code == 1
    assert error.count("\n") == 1
    assert "--overwrite" in error
    assert os.stat(output).st_mtime_ns == before
    assert run(capfd, "convert", network, output, "--overwrite", *FAST)[0] == 0
    assert os.listdir(tmp_path) == ["out"]
    assert "serving_default" in tf.saved_model.load(output).signatures


def test_the_model_itself_as_output(capfd, dense):
    result = run(capfd, "convert", dense, f"{dense}/../model", "--overwrite")
    assert result[0] == 1
    assert "is the directory of the model. Write to another directory" in result[2]
    assert "serving_default" in tf.saved_model.load(dense).signatures


def test_an_output_around_or_inside_of_the_model(capfd, tmp_path, dense):
    inside = f"{dense}/converted"
    code, _, error = run(capfd, "convert", dense, inside)
    assert (code, error.count("\n")) == (1, 1)
    assert "is inside of the model's directory. Write to another directory" in error
    assert not os.path.exists(inside)
    around = str(tmp_path / "around")
    shutil.copytree(dense, around)
    model = shutil.copytree(dense, f"{around}/model")
    code, _, error = run(capfd, "convert", model, around, "--overwrite")
    assert (code, error.count("\n")) == (1, 1)
    assert f"{model} is inside of {around}" in error
    assert "serving_default" in tf.saved_model.load(model).signatures


def test_a_reader_of_the_output_that_left(tmp_path):
    (reader, writer) = os.pipe()
    os.close(reader)
    source, output = str(tmp_path / "model.keras"), str(tmp_path / "out")
    inputs = keras.Input(batch_shape=(2, 8, 8, 3))
    keras.Model(inputs, layers.Conv2D(4, 3)(inputs)).save(source)
    # Convert prints a line about the fixed batch size before it starts.
    command = ["convert", source, output, "--strategy=sequential", *FAST]
    with os.fdopen(writer, "wb") as pipe:
        words = [prepared_python.path(), "-m", "ios_tf", *command]
        done = subprocess.run(words, stdout=pipe)
    assert done.returncode == 0
    assert "serving_default" in tf.saved_model.load(output).signatures


def test_a_home_that_cannot_be_written(tmp_path):
    # TensorFlow's dependencies then keep their files in the temporary directory.
    words = ["-m", "ios_tf", "cache", "list"]
    assert run_python(*words, HOME="/proc/home", TMPDIR=tmp_path).stderr == ""
    assert os.listdir(tmp_path) == []


def test_an_output_in_tensorflow_s_memory(network):
    output = "ram://ios_tf/out"
    ios_tf.convert(network, output, keep_slower=True, sample_count=1, runs=1)
    assert "serving_default" in tf.saved_model.load(output).signatures


def test_model_without_a_convolution_is_copied(capfd, tmp_path, dense):
    code, out, error = run(capfd, "convert", dense, str(tmp_path / "out"))
    assert (code, error) == (0, "")
    assert "no convolution" in out
    assert "copied unchanged" in out
    for directory, _, files in os.walk(dense):
        for file in files:
            path = os.path.join(directory, file)
            copy = str(tmp_path / "out") + path[len(dense) :]
            with open(path, "rb") as a, open(copy, "rb") as b:
                assert a.read() == b.read()


def test_corrupt_cache_is_ignored_with_a_warning(
    capfd, caplog, tmp_path, network, cache
):
    assert run(capfd, "convert", network, str(tmp_path / "a"), *FAST)[0] == 0
    files = [os.path.join(d, f) for d, _, fs in os.walk(cache) for f in fs]
    assert files
    for path in files:
        with open(path, "w") as file:
            file.write('{"version": 1')
    assert run(capfd, "convert", network, str(tmp_path / "b"), *FAST)[0] == 0
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == len(files)
    assert all(any(path in warning for warning in warnings) for path in files)
    code, out, _ = run(capfd, "convert", network, str(tmp_path / "c"), *FAST)
    assert code == 0
    assert "from cache" in out
    assert len(caplog.records) == len(files)


def test_convert_and_show(capfd, tmp_path, network):
    output = str(tmp_path / "out")
    code, out, _ = run(capfd, "convert", network, output, "--strategy=merge", *FAST)
    assert code == 0
    names = [line.split("  ")[0] for line in out.splitlines()]
    for row in ("operators", "blocks", "stages", "sequential", "scheduled", "search"):
        assert row in names
    code, out, _ = run(capfd, "show", output)
    assert code == 0
    stages = [line.split("  ")[-1] for line in out.splitlines() if "stage " in line][1:]
    assert set(stages) <= {"merge", "one operator"}
    assert "one operator" in stages
    result = run(capfd, "convert", output, str(tmp_path / "again"))
    assert result[0] == 1
    assert "is already converted" in result[2]


def test_verbosity_tells_steps_and_their_seconds(tmp_path, dense):
    flags = ["convert", dense, str(tmp_path / "out"), "--verbosity=0", "--quiet"]
    lines = run_prepared("-m", "ios_tf", *flags).stderr.splitlines()
    steps = [re.match(r"ios_tf: (.*): \d+\.\d s, ", line) for line in lines]
    assert [step[1] for step in steps] == [phases.READ, phases.LOAD, phases.FIND_BLOCKS]


def test_show_of_a_model_that_is_not_converted(capfd, tmp_path, network):
    result = run(capfd, "show", network)
    assert_fails(result, 1, "not converted", tmp_path)


def test_bench(capfd, tmp_path, network, monkeypatch):
    flags = ["--strategies=greedy,auto", "--rounds=2", "--device=cpu"]
    code, out, _ = run(capfd, "bench", network, *flags)
    assert code == 0
    lines = [line.split() for line in out.splitlines()[2:6]]
    table = {words[0]: words for words in lines}
    assert list(table) == ["TensorFlow", "frozen", "greedy", "auto"]
    assert float(table["TensorFlow"][4]) == 1.0
    for name in ("frozen", "greedy", "auto"):
        assert float(table[name][5]) < 1e-4
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capfd, "bench", network, *flags, "--json")
    assert code == 0
    result = json.loads(out)
    assert [one["name"] for one in result["variants"]] == list(table)
    assert all(len(one["latencies_ms"]) == 6 for one in result["variants"])
    ratios = {one["name"]: one["ratio"] for one in result["variants"]}
    assert len(result["notes"]) == (ratios["auto"] > ratios["greedy"])
    assert os.listdir(tmp_path) == []  # it writes no file unasked


def test_json_is_not_a_file_name(capfd, tmp_path):
    result = run(capfd, "bench", "MODEL", "--json=results.json")
    assert_fails(result, 2, "--json does not take a value", tmp_path)
    assert "use --json > FILE" in result[2]


def test_bench_with_inputs(capfd, tmp_path, network):
    flags = ["--strategies=greedy", "--rounds=1", "--device=cpu"]
    name = next(iter(tf.saved_model.load(network).signatures["serve"]._arg_keywords))
    images = np.random.default_rng(0).random([2, 9, 9, 3], np.float32)
    file = tmp_path / "images.npy"
    np.save(file, images)
    code, out, _ = run(capfd, "bench", network, *flags, f"--input={name}={file}")
    file.unlink()
    assert code == 0
    assert "greedy" in out
    result = run(capfd, "bench", network, *flags, f"--input={name}=1,9,9,4")
    assert_fails(result, 1, "does not match", tmp_path)


def test_command_is_installed():
    command = os.path.join(os.path.dirname(sys.executable), "ios_tf")
    done = subprocess.run([command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "convert" in done.stdout
    done = subprocess.run(
        [command, "convert", "/no/model", "/no/output", "--quiet"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_gpu_that_is_not_there(tmp_path, network):
    # Runs in a new process, because this process may have loaded CUDA's libraries.
    done = run_python(
        *("-m", "ios_tf", "convert", network, tmp_path / "out", "--device=gpu"),
        status=1,
        CUDA_VISIBLE_DEVICES="-1",
        IOS_TF_CUDA_LIBRARIES=tmp_path,
    )
    result = done.returncode, done.stdout, done.stderr
    assert_fails(result, 1, "device gpu: TensorFlow does not find a GPU; ", tmp_path)
    assert "libcuda.so.1" in done.stderr


def test_device_that_was_chosen_is_announced(capfd, tmp_path, network, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    output = str(tmp_path / "out")
    code, out, _ = run(capfd, "convert", network, output, *FAST)
    assert code == 0
    assert out.startswith(
        "the model is scheduled for the CPU, because TensorFlow does not find a GPU\n"
    )
    flags = "--overwrite", "--device=cpu", *FAST
    _, out, _ = run(capfd, "convert", network, output, *flags)
    assert "does not find a GPU" not in out


def test_random_weights_are_announced(capfd, tmp_path, monkeypatch):
    def small(weights):
        inputs = keras.Input((224, 224, 3))
        x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, 32)(inputs))
        return keras.Model(inputs, layers.Dense(1000)(x))

    monkeypatch.setattr(keras.applications, "MobileNetV2", small)
    code, out, _ = run(
        capfd,
        "convert",
        "keras:MobileNetV2",
        str(tmp_path / "out"),
        "--strategy=sequential",
        *FAST,
    )
    assert code == 0
    assert "random weights" in out
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    (output,) = loaded.signatures["serving_default"](
        tf.constant(np.zeros([2, 224, 224, 3], np.float32))
    ).values()
    assert output.shape == [2, 1000]


def test_closed_standard_streams(tmp_path):
    """The command handles closed standard streams, which daemons have."""
    command = f"{sys.executable} -m ios_tf cache list --cache_dir={tmp_path}"
    subprocess.run(f"{command} <&- >&- 2>&-", shell=True, check=True)
    missing = f"{command}/none 2>&1 >&-"
    done = subprocess.run(missing, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    prepared = command.replace(sys.executable, prepared_python.path())
    full = f"{prepared} >/dev/full"
    done = subprocess.run(full, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left" in done.stderr


def test_help_imports_nothing_heavy():
    program = "import sys; from ios_tf.cli.main import main; main(['--help']); "
    program += "print(sorted({'numpy', 'tensorflow', 'benchmarks'} & {*sys.modules}))"
    assert run_python("-c", program).stdout.splitlines()[-1] == "[]"
