"""The mistakes of mutate_cuda.py can be planted: the sources still have the text that
each changes, and there is the test that is to find it. Only the script runs that."""

import re

import pytest
from mutate_cuda import MUTATIONS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_can_be_planted(mutation):
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1
    for test in filter(None, (mutation.test, mutation.passes)):
        file, _, name = test.partition("[")[0].partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M)
