"""The recordings against the running target on real interfaces: all of them on bmv2, some on the embedded switch.

The embedded switch is held to all of them in tests/unit/test_golden.py, without interfaces and in a hundredth of the time.
"""

from __future__ import annotations

import pytest

from tests.golden.record import names, play, recorded, target_of
from tests.network.test_ptf_scenarios import isolated_test
from tests.scenarios import scenarios

ON_EMBEDDED = ["replication", "forwarded", "switchml-two-levels"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which recordings are played depends on the target."""
    metafunc.parametrize("name", names() if metafunc.config.getoption("target") == "bmv2" else ON_EMBEDDED)


def test_target_does_as_recorded(name: str, request: pytest.FixtureRequest) -> None:
    scenario = scenarios()[name]
    target = target_of(scenario, request.config.getoption("target"))

    def body() -> None:
        wanted = recorded(name)
        for number, (was, is_) in enumerate(zip(wanted, play(scenario, target, wanted), strict=True)):
            assert was == is_, f"packet {number} of {name}"

    isolated_test(body)
