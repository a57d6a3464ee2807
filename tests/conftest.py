"""Shared fixtures: programs built once; how many examples are drawn; and the sentence for who may not make namespaces."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numba
import pytest

# gRPC starts its threads again in every process that is forked; tests fork into PID namespaces, where that ends them
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
numba.config.BOUNDSCHECK = 1  # type: ignore[attr-defined] # of compiled loops, which imports compile

from schemes import registry  # noqa: E402
from switches.target import Target  # noqa: E402
from testbed.plan.targets import REAL, make_target, real_target_for  # noqa: E402
from tests.properties import register_profiles  # noqa: E402
from topologies import isolation  # noqa: E402

register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test TARGET=bmv2` runs the tests that make networks on real BMv2, and compares the recordings with it."""
    parser.addoption("--target", default="embedded", choices=list(REAL), help="what runs the switches of networks under test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in tests/network make namespaces; who may not fails at once, with a sentence."""
    for item in items:
        if "network" in Path(str(item.fspath)).parts:
            item.add_marker(pytest.mark.network)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") and not _namespaces():
        pytest.fail("network tests make namespaces, which this user may not: run sudo make test, or make test-unit", pytrace=False)


@cache
def _namespaces() -> bool:
    return isolation.possible()


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under test with p4/switchml.p4 at 64 integers a packet."""
    return make_target(request.config.getoption("target"), Path("p4/switchml.p4"), {"K": "64"})


@pytest.fixture(scope="session")
def small_target(request: pytest.FixtureRequest) -> Target:
    """The same at 32 integers a packet."""
    return make_target(request.config.getoption("target"), Path("p4/switchml.p4"), {"K": "32"})


@pytest.fixture(scope="session")
def atp_target(request: pytest.FixtureRequest) -> Target:
    """The target under test with p4/atp.p4 at 64 integers a packet."""
    return real_target_for(request.config.getoption("target"), registry.find("atp"), 64)
