"""Turns limit how many threads work, and keep the order of their arrival."""

import contextlib
import ctypes
import signal
import threading

import pytest

from ios_tf.model.turns import Turns


class Work:
    """Work of a thread, which begins and ends under the control of a test."""

    def __init__(self, turns: Turns, order: list["Work"]) -> None:
        self.begins, self.ends = threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self._turns, self._order = turns, order
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._turns.run(self._work)
        except BaseException as error:
            self.failure = error

    def _work(self) -> None:
        self._order.append(self)
        self.begins.set()
        while not self.ends.wait(0.01):
            pass

    def start_and_begin(self) -> "Work":
        self.thread.start()
        assert self.begins.wait(60)
        return self

    def start_and_wait(self) -> "Work":
        waiting = self._turns.waiting
        self.thread.start()
        while self._turns.waiting == waiting:
            pass
        return self

    def end(self) -> None:
        self.ends.set()
        self.thread.join(60)

    def interrupt(self) -> None:
        """Raises an exception in the thread, as libraries for timeouts do."""
        ident = ctypes.c_ulong(self.thread.ident)
        error = ctypes.py_object(TimeoutError)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error) == 1


def test_threads_begin_in_order_of_arrival():
    turns, order = Turns(2), []
    works = [Work(turns, order) for _ in range(6)]
    for one in works[:2]:
        one.start_and_begin()
    for one in works[2:]:
        one.start_and_wait()
    assert order == works[:2]
    # The second thread ends first, and then the others in turn.
    for i, following in zip([1, 0, 2, 3], works[2:], strict=True):
        works[i].end()
        assert following.begins.wait(60)
        assert order[-1] is following
    works[4].end()
    works[5].end()
    assert order == works and turns.waiting == 0
    assert turns.run(lambda: 5) == 5


def test_an_error_ends_a_turn():
    turns = Turns(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            turns.run(lambda: 1 // 0)
    assert turns.run(lambda: 5) == 5


def test_threads_are_interrupted():
    turns, order = Turns(1), []
    active = Work(turns, order).start_and_begin()
    first = Work(turns, order).start_and_wait()
    second = Work(turns, order).start_and_wait()
    first.interrupt()  # it raises the exception when its turn begins
    active.interrupt()
    active.thread.join(60)
    assert second.begins.wait(60)
    assert isinstance(active.failure, TimeoutError)
    first.thread.join(60)
    assert isinstance(first.failure, TimeoutError)
    second.end()
    assert second.failure is None and turns.run(lambda: 5) == 5


def test_a_signal_interrupts_the_main_thread():
    turns, order = Turns(1), []
    active = Work(turns, order).start_and_begin()
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def raise_error(*_) -> None:
        raise KeyboardInterrupt

    def interrupt() -> None:
        while turns.waiting == 0:
            pass
        signal.pthread_kill(main, signal.SIGUSR1)

    # Workers of pytest-xdist ignore SIGINT.
    before = signal.signal(signal.SIGUSR1, raise_error)
    helper = threading.Thread(target=interrupt, daemon=True)
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            turns.run(lambda: 5)
    finally:
        signal.signal(signal.SIGUSR1, before)
    helper.join(60)
    assert turns.waiting == 0
    active.end()
    assert turns.run(lambda: 5) == 5


# A thread may be interrupted where it does not expect it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_turn_ends_when_its_thread_has_gone():
    """Interrupts in bursts hit threads at any place, also where they end a turn."""
    turns = Turns(2)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                turns.run(lambda: None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for one in threads:
        one.start()
    error = ctypes.py_object(TimeoutError)
    for _ in range(200):
        for one in threads:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(one.ident), error)
        turns.run(lambda: None)
    stop.set()
    assert turns.run(lambda: 5) == 5
