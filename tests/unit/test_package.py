"""`dir(ios_tf)` lists the public names, and does not import TensorFlow."""

from commands import run_python

FUNCTIONS = {"convert", "optimize", "enable", "disable", "status", "tune", "trace"}


def test_dir_lists_the_public_names():
    code = "import sys, ios_tf; print(*dir(ios_tf), 'tensorflow' in sys.modules)"
    done = run_python("-c", code)
    assert done.stderr == ""
    *names, imported = done.stdout.split()
    assert imported == "False"
    assert {*names} > FUNCTIONS
    assert not {*names} & {"annotations", "importlib", "logging", "plugin"}
