"""Random programs on the embedded switch and on an interpreter of the checked tree: each packet comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.p4_comparison import differences, pipeline_differences


@pytest.mark.parametrize("seed", range(24))
def test_packets_come_out_as_the_specification_says(seed: int, tmp_path: Path) -> None:
    assert differences(seed, tmp_path) == []


@pytest.mark.parametrize("seed", range(24))
def test_pipelines_do_what_the_specification_says(seed: int, tmp_path: Path) -> None:
    """Parsers with errors, tables of all match kinds with entries, registers and counters."""
    assert pipeline_differences(seed, tmp_path) == []
