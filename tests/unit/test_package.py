"""`dir(ios_tf)` lists the public names, and does not import TensorFlow."""

import subprocess
import sys

FUNCTIONS = {"convert", "optimize", "enable", "disable", "status", "tune", "trace"}


def test_dir_lists_the_public_names():
    code = "import sys, ios_tf; print(*dir(ios_tf), 'tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    *names, imported = done.stdout.split()
    assert imported == "False"
    assert {*names} > FUNCTIONS
    assert not {*names} & {"annotations", "importlib", "logging", "plugin"}
