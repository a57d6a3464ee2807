"""Random programs on the embedded switch and on an interpreter of the checked tree: each packet comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.p4_comparison import differences


@pytest.mark.parametrize("seed", range(24))
def test_packets_come_out_as_the_specification_says(seed: int, tmp_path: Path) -> None:
    assert differences(seed, tmp_path) == []
