"""The mistakes of mutate_cuda.py can be planted: the sources contain the text that each
mistake replaces, and the test that should find it exists. (Only the script runs these
tests with the mistakes.)"""

import re

import pytest
from mutate_cuda import MUTATIONS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_can_be_planted(mutation):
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1
    for test in filter(None, (mutation.test, mutation.passes)):
        file, _, name = test.partition("[")[0].partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M)


def test_there_is_a_mistake_for_each_finding():
    page = (ROOT / "docs/internals/gpu_findings.md").read_text()
    findings = set(re.findall(r"^\| (N\d+) \| .* \| .* \| .* \| .* \|$", page, re.M))
    assert len(findings) == 24
    assert {mutation.finding for mutation in MUTATIONS} - {""} == findings
