"""The benchmark of how fast a report's page opens and scrolls."""

import importlib.util
import json
import re

import pytest
import report_documents as rd

from benchmarks import __main__ as benchmarks
from benchmarks import chromium

if importlib.util.find_spec("playwright") is None:
    pytest.skip("playwright is not installed", allow_module_level=True)
if chromium.program() is None:
    pytest.skip("Chromium is not on the PATH", allow_module_level=True)


def test_times_of_a_page(tmp_path, capsys):
    report = tmp_path / "report.json"
    report.write_text(json.dumps(rd.document(networks=[rd.long_network(60)])))
    assert benchmarks.main(["report_page", str(report), "--rounds=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    times = {
        label: int(ms)
        for label, ms in re.findall(r"^(.*): (\d+) ms, at most", "\n".join(lines), re.M)
    }
    assert times["loaded"] <= times["shown with charts"]
    closed, opened = (int(re.search(r"(\d+) pixels", line)[1]) for line in lines[-2:])
    assert 900 < closed < opened
