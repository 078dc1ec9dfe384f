"""The contention benchmark calls both models in every row."""

import pytest
import shared

from benchmarks.contention import (
    PERCENTILES,
    VARIANTS,
    VARIANTS_OF_CALLERS,
    bench_contention,
)


@pytest.mark.usefixtures("prepared")
def test_rows_have_percentiles_of_both_models():
    rows = ["beside 3 builds", "8 callers"]
    found = bench_contention(str(shared.branches()), 1, 0.0, rows)
    assert [(row, list(of)) for row, of in found.items()] == [
        (rows[0], list(VARIANTS)),
        (rows[1], list(VARIANTS_OF_CALLERS)),
    ]
    for percentiles in [of for row in found.values() for of in row.values()]:
        values = [percentiles[f"p{p}"] for p in PERCENTILES]
        assert 0 < values[0] <= values[1] <= values[2]
        assert percentiles["images_per_second"] > 0
