"""A Python for tests whose processes start with TensorFlow imported.

`path()` is an executable that takes the arguments `-c CODE`, `-m MODULE` or `SCRIPT` as
Python does. Importing TensorFlow takes longer than most commands that tests run. This
executable therefore asks a server (prepared_server.py) for a fork, and waits for the
fork to end. The server has imported TensorFlow and nothing else. The fork gets the
arguments, environment, working directory, cores and standard streams of the executable.

Each environment has its own server, because TensorFlow reads variables when it is
imported. Forks differ from new processes in these ways:

* Forks of one server have the same hash seed, and no terminal.
* TensorFlow is imported before ios_tf.
* If the executable is killed, the fork is killed a moment later.

Tests that depend on such differences use `sys.executable`. So do tests of imports, and
of the messages that TensorFlow prints when it is imported.
"""

import array
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys

# The environment variable with the path of a directory that all processes of a test run
# share. conftest.py creates the directory.
DIRECTORY = "IOS_TF_TESTS_SHARED"
# Prefixes of environment variables that do not require another server: importing
# TensorFlow does not read them, or forks apply them.
IGNORED = ("IOS_TF_", "PYTEST_", "PYTHONPATH", "TMPDIR", "TERM", "COLUMNS", "LINES")
# The Python for processes that tests start. Tests may replace it by `path()`.
PYTHON = sys.executable
SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prepared_server.py")


def path() -> str:
    """The path of the executable, which is created if it does not exist yet."""
    target = os.path.join(os.environ[DIRECTORY], "python")
    if not os.path.exists(target):
        unfinished = f"{target}.{os.getpid()}"
        # -I and -S: without site-packages, which would slow down the start.
        with open(unfinished, "w") as file:
            file.write(f"#!{PYTHON} -IS\n")
            file.write(f"import sys\nsys.path.insert(0, {os.path.dirname(SERVER)!r})\n")
            file.write("import prepared_python\n")
            file.write(f"prepared_python.main({os.path.dirname(target)!r})\n")
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, target)
    return target


def main(directory: str) -> None:
    """Runs the arguments of this process in a fork, and ends as the fork does."""
    request = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "cores": sorted(os.sched_getaffinity(0)),
    }
    message = json.dumps(request).encode()
    streams = array.array("i", [0, 1, 2])
    forwarded = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    with _connected(directory) as connection:
        # Signals are blocked until this process knows the process number of the fork,
        # to which it forwards them.
        signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
        header = [len(message).to_bytes(8, "little")]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
        connection.sendmsg(header, rights)
        connection.sendall(message)
        answers = connection.makefile()
        child = int(answers.readline())

        def forward(number: int, _: object) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

        for number in forwarded:
            signal.signal(number, forward)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
        status = int(answers.readline())
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _connected(directory: str) -> socket.socket:
    """A connection to the server for this environment, which is started if needed."""
    read = {k: v for k, v in os.environ.items() if not k.startswith(IGNORED)}
    text = json.dumps(sorted(read.items()))
    name = f"server_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    address = os.path.join(directory, name)
    with open(address + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            return _connection(address)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)  # the server of this address has ended
        with open(address + ".log", "ab") as log:
            python = [PYTHON, SERVER, address]
            server = subprocess.Popen(
                python,
                cwd="/",
                env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert server.stdout is not None
        server.stdout.readline()  # waits until the server listens
        return _connection(address)


def _connection(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection
