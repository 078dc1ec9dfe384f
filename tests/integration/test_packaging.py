"""The installed package: the effects of importing it, and its errors."""

import platform
import subprocess

import pytest
from commands import run_prepared, run_python

from ios_tf.errors import NativeLibraryError
from ios_tf.native import platforms, plugin


def test_import_leaves_tensorflow_alone():
    code = "import sys, ios_tf.scheduler; sys.exit('tensorflow' in sys.modules)"
    run_python("-c", code)


@pytest.mark.parametrize("tensorflow_is_first", [False, True])
def test_plugin_is_loaded_with_tensorflow(tensorflow_is_first):
    code = """
import ios_tf
from tensorflow import keras
import ios_tf
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
assert op_def_registry.get("IosRegion") is not None
"""
    # The prepared Python has imported TensorFlow.
    run = run_prepared if tensorflow_is_first else run_python
    run("-c", code)


def test_same_minor_version_fits():
    assert plugin.version_mismatch("2.21.0", "2.21.0") is None
    assert plugin.version_mismatch("2.21.3", "2.21.0") is None


@pytest.mark.parametrize("running", ["2.20.0", "2.22.0-rc1", "3.21.0"])
def test_other_minor_version_is_one_line(running):
    message = plugin.version_mismatch(running, "2.21.0")
    assert "2.21.0" in message
    assert running in message
    assert "pip install 'tensorflow~=2.21.0'" in message
    assert "\n" not in message


def test_other_version_is_said_at_import(tmp_path):
    code = f"""
import json, pathlib, shutil, ios_tf
from ios_tf.native import platforms, plugin
lib = pathlib.Path({str(tmp_path)!r})
(lib / "build.json").write_text(json.dumps({{"tensorflow": "2.20.1"}}))
(lib / "libios_tf_ops.so").write_text("")
plugin.LIBRARIES = lib
import tensorflow
"""
    lines = run_python("-c", code).stderr.splitlines()
    (line,) = [line for line in lines if "ios_tf" in line]
    assert "built for TensorFlow 2.20.1" in line


def test_commands_name_another_version_before_they_load_the_model(tmp_path):
    (tmp_path / "build.json").write_text('{"tensorflow": "2.20.1"}')
    (tmp_path / "libios_tf_ops.so").write_text("")
    code = f"""
import pathlib, sys
from ios_tf.native import plugin
plugin.LIBRARIES = pathlib.Path({str(tmp_path)!r})
from ios_tf.cli import main
sys.exit(main.main(["convert", "no-such-model", "output"]))
"""
    (line,) = run_python("-c", code, status=1).stderr.splitlines()
    assert "is built for TensorFlow 2.20.1" in line
    assert "pip install 'tensorflow~=2.20.0'" in line


def test_the_plugin_imports_tensorflow():
    """Importing TensorFlow loads the plugin while the plugin is being imported."""
    code = "from ios_tf.native import plugin; print(plugin.ops().ios_region.__name__)"
    assert run_python("-c", code).stdout == "ios_region\n"


def test_no_onednn_is_one_line_at_import(tmp_path):
    code = f"""
import pathlib, shutil, ios_tf
from ios_tf.native import engine, plugin
lib = pathlib.Path({str(tmp_path)!r})
for name in ("build.json", "libios_engine.so", "libios_tf_ops.so"):
    shutil.copy(plugin.LIBRARIES / name, lib)
plugin.LIBRARIES = engine.LIBRARIES = lib
import tensorflow as tf
print(tf.function(lambda x: x + 1)(tf.constant(1)).numpy())
"""
    done = run_python("-c", code)
    assert done.stdout.split() == ["2"]
    (line,) = [line for line in done.stderr.splitlines() if "ios_tf" in line]
    assert "libios_dnnl.so: cannot open shared object file" in line


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.99' not found (required "
            "by /x/libios_engine.so)",
            "needs glibc with GLIBC_2.99, but this system has glibc 2.",
        ),
        (
            "/lib/libstdc++.so.6: version `GLIBCXX_3.4.99' not found (required by /x)",
            "needs libstdc++ with GLIBCXX_3.4.99, but this system does not have it",
        ),
        ("libios_dnnl.so: cannot open shared object file", "cannot open shared"),
    ],
)
def test_loader_errors_are_explained(error, expected):
    assert expected in platforms.explained(error)


def test_older_system_is_one_line_at_import(tmp_path):
    """A library that needs a newer C library than this system's."""
    source = tmp_path / "newer.c"
    source.write_text("void newer() {}")
    script = tmp_path / "versions"
    script.write_text("GLIBC_2.99 { global: newer; };")
    library = tmp_path / "libnewer.so"
    gcc = ["g++", "-x", "c", "-shared", "-fPIC"]
    flags = [f"-Wl,--version-script={script}", "-Wl,-soname,libnewer.so"]
    subprocess.run([*gcc, *flags, "-o", library, source], check=True)
    user = tmp_path / "user.c"
    user.write_text("void newer(); void use() { newer(); }")
    engine_library = tmp_path / "libios_engine.so"
    rpath = f"-Wl,-rpath,{tmp_path}"
    link = [rpath, "-L", tmp_path, "-lnewer"]
    subprocess.run([*gcc, "-o", engine_library, user, *link], check=True)
    # Now the library has lost that version, as on an older system.
    script.write_text("GLIBC_2.1 { global: newer; };")
    subprocess.run([*gcc, *flags, "-o", library, source], check=True)
    code = f"""
import pathlib
from ios_tf.native import engine
engine.LIBRARIES = pathlib.Path({str(tmp_path)!r})
try:
    engine.load()
except engine.EngineError as error:
    print(error)
"""
    (line,) = run_python("-c", code).stdout.splitlines()
    assert "needs glibc with GLIBC_2.99" in line
    assert "Install a wheel for an older manylinux" in line


def test_another_architecture_is_one_sentence(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    sentence = platforms.explained("invalid ELF header")
    assert sentence == (
        "ios_tf supports Linux on x86_64 only, but this is Linux on aarch64"
    )


@pytest.mark.parametrize(
    ("found", "name"),
    [
        # Python before 3.14 does not recognize musl.
        (("", ""), "another C library (Alpine Linux has musl)"),
        (("musl", "1.2.5"), "musl"),
    ],
)
def test_another_c_library_is_one_sentence(found, name, monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: found)
    sentence = platforms.explained("libc.so.6: cannot open shared object file")
    assert sentence == (
        f"ios_tf and TensorFlow need glibc, but this Python uses {name}"
    )


def test_missing_library_is_one_line_on_use(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, "LIBRARIES", tmp_path)
    monkeypatch.setattr(plugin, "_ops", None)
    for use in (plugin.ops, lambda: plugin.device_fingerprint("cpu")):
        with pytest.raises(NativeLibraryError, match="not built") as error:
            use()
        assert "\n" not in str(error.value)


def test_broken_library_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "build.json").write_text((plugin.LIBRARIES / "build.json").read_text())
    (tmp_path / "libios_tf_ops.so").write_text("no library")
    monkeypatch.setattr(plugin, "LIBRARIES", tmp_path)
    monkeypatch.setattr(plugin, "_ops", None)
    with pytest.raises(NativeLibraryError, match="cannot be loaded") as error:
        plugin.ops()
    assert "\n" not in str(error.value)
