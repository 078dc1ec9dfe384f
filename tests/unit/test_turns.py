"""Turns: at most so many threads, in order of arrival."""

import threading

from ios_tf.model.turns import Turns


def test_threads_enter_in_order_of_arrival():
    turns = Turns(2)
    entered: list[int] = []
    inside = [threading.Semaphore(0) for _ in range(6)]
    leave = [threading.Event() for _ in range(6)]

    def work(i: int) -> None:
        with turns:
            entered.append(i)
            inside[i].release()
            leave[i].wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for i, thread in enumerate(threads):
        thread.start()
        if i < 2:
            inside[i].acquire()
        else:
            while turns.waiting < i - 1:
                pass
    assert entered == [0, 1]
    with turns:  # the main thread does not wait
        assert turns.waiting == 4
    # Thread 1 leaves first, and then in turn the others.
    for i, next_one in zip([1, 0, 2, 3], [2, 3, 4, 5], strict=True):
        leave[i].set()
        inside[next_one].acquire()
        assert entered[-1] == next_one
    leave[4].set()
    leave[5].set()
    for thread in threads:
        thread.join()
    assert entered == [0, 1, 2, 3, 4, 5] and turns.waiting == 0


def test_an_error_ends_a_turn():
    turns = Turns(1)
    results = []

    def work() -> None:
        try:
            with turns:
                raise ValueError
        except ValueError:
            results.append("error")

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert results == ["error"] * 3
