"""Imports TensorFlow, and forks for each request of prepared_python.py.

It ends when its directory is removed, or when it has received no request for an hour.
"""

import array
import builtins
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import types
from typing import Any

import tensorflow  # noqa: F401

SECONDS_BETWEEN_LOOKS = 5
SECONDS_IDLE = 3600


def received(connection: socket.socket) -> dict[str, Any]:
    """The request of a client, with its standard streams as file descriptors."""
    size = 3 * array.array("i").itemsize
    header, rights, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(size))
    streams = array.array("i")
    streams.frombytes(rights[0][2][:size])
    text = connection.recv(int.from_bytes(header, "little"), socket.MSG_WAITALL)
    return {**json.loads(text), "streams": list(streams)}


def next_request(address: str) -> dict[str, Any]:
    """Serves forever; returns the request in each fork."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)
    children: dict[int, tuple[int, socket.socket]] = {}  # by file descriptor
    idle = 0
    while True:
        ready = selector.select(SECONDS_BETWEEN_LOOKS)
        idle = 0 if ready or children else idle + SECONDS_BETWEEN_LOOKS
        if not os.path.exists(address) or idle > SECONDS_IDLE:
            os._exit(0)
        for key, _ in ready:
            if key.fileobj is listener:
                connection, _ = listener.accept()
                request = received(connection)
                child = os.fork()
                if child == 0:
                    selector.close()
                    for opened in (listener, connection):
                        opened.close()
                    for process, (_, other) in children.items():
                        os.close(process)
                        other.close()
                    return request
                for stream in request["streams"]:
                    os.close(stream)
                connection.sendall(b"%d\n" % child)
                process = os.pidfd_open(child)
                children[process] = child, connection
                selector.register(process, selectors.EVENT_READ)
                selector.register(connection, selectors.EVENT_READ, child)
            elif key.data:  # the client has ended
                selector.unregister(key.fileobj)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(key.data, signal.SIGKILL)
            elif key.fd in children:
                selector.unregister(key.fd)
                os.close(key.fd)
                child, connection = children.pop(key.fd)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with contextlib.suppress(KeyError):
                    selector.unregister(connection)
                with contextlib.suppress(BrokenPipeError):
                    connection.sendall(b"%d\n" % status)
                connection.close()


def become(request: dict[str, Any]) -> None:
    """Gives this process the state of a new Python process of the client."""
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["directory"])
    os.sched_setaffinity(0, request["cores"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # The server starts without this variable. Python drops paths that occur twice.
    named = os.environ.get("PYTHONPATH", "")
    paths = map(os.path.abspath, named.split(os.pathsep) if named else [])
    sys.path[1:] = dict.fromkeys([*paths, *sys.path[1:]])
    tempfile.tempdir = None  # TMPDIR may differ
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    importlib.invalidate_caches()
    first, *rest = request["arguments"]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif first.startswith("-"):
        sys.exit(f"prepared_python.py does not know the option {first}")
    elif os.path.isdir(first):
        sys.path[0] = first
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")
    else:
        main.__file__ = os.path.abspath(first)
        sys.path[0] = os.path.dirname(main.__file__)
        sys.argv = [first, *rest]
        with open(first, "rb") as script:
            exec(compile(script.read(), main.__file__, "exec"), main.__dict__)


gc.collect()
gc.freeze()  # A garbage collection in a fork would otherwise copy all objects.
become(next_request(sys.argv[1]))
