"""Forks of the prepared Python behave as processes of Python."""

import os
import select
import signal
import subprocess
import sys

import prepared_python
import pytest

# Prints what a process can see of its start.
FACTS = """
import os, sys
print(sys.argv, __name__, sys.path, os.getcwd(), sys.executable, sys.flags.isolated)
print(os.environ["IOS_TF_FACT"], os.getenv("PYTHONPATH"), os.sched_getaffinity(0))
print(globals().get("__file__"), "ios_tf" in sys.modules)
print(sys.stdin.read(), sys.stdout.isatty(), file=sys.stderr)
sys.exit(3)
"""


def facts(python: str, form: list[str], tmp_path) -> list:
    (tmp_path / "facts.py").write_text(FACTS)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [python, *form, "one", "two words"],
        input="typed",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "IOS_TF_FACT": "é", "PYTHONPATH": os.pathsep.join(paths)},
    )
    return [done.returncode, done.stdout, done.stderr]


@pytest.mark.parametrize("form", [["-c", FACTS], ["-m", "facts"], ["facts.py"]])
def test_a_fork_sees_what_python_sees(form, tmp_path):
    found = facts(prepared_python.path(), form, tmp_path)
    assert found == facts(sys.executable, form, tmp_path)
    assert found[0] == 3 and found[2] == "typed False\n"


def test_tensorflow_is_imported_already():
    code = "import sys; print('tensorflow' in sys.modules)"
    words = [prepared_python.path(), "-c", code]
    assert subprocess.check_output(words) == b"True\n"


def test_ends_of_forks():
    def code_of(text: str) -> int:
        words = [prepared_python.path(), "-c", text]
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode

    assert code_of("import sys; sys.exit('a message')") == 1
    assert code_of("1 / 0") == 1
    assert code_of("import os; os.abort()") == -signal.SIGABRT
    assert code_of("import os; os.kill(os.getpid(), 9)") == -signal.SIGKILL
    assert code_of("import atexit, os; atexit.register(os._exit, 7)") == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_fork(number):
    code = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    code += "print(os.getpid(), flush=True); signal.pause()"
    words = [prepared_python.path(), "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        fork = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(number)
        assert process.wait() == -number
        select.select([fork], [], [])  # waits until the fork has ended
        os.close(fork)
