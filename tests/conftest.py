"""Shared fixtures: programs built once, and the sentence for who is not root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switches.embedded.target import EmbeddedTarget


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in tests/network need root; without it they fail at once, and say so."""
    for item in items:
        if "network" in Path(str(item.fspath)).parts:
            item.add_marker(pytest.mark.network)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") and os.geteuid() != 0:
        pytest.fail("network tests need root: run sudo make test, or make test-unit for the others", pytrace=False)


@pytest.fixture(scope="session")
def target() -> EmbeddedTarget:
    """The embedded switch with p4/switchml.p4 at 64 integers a packet."""
    return EmbeddedTarget(Path("p4/switchml.p4"), {"K": "64"})


@pytest.fixture(scope="session")
def small_target() -> EmbeddedTarget:
    """The same at 32 integers a packet."""
    return EmbeddedTarget(Path("p4/switchml.p4"), {"K": "32"})
