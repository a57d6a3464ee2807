"""Shared fixtures: programs built once; how many examples are drawn; who runs beside whom; and what tests may not leave behind.

pytest reads this file twice, outside and inside the namespaces of a session (tests.supervision), and again in each process that
runs tests: what takes long to import is imported by those who use it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# gRPC starts its threads again in every process that is forked; tests fork into PID namespaces, where that ends them
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["INALAB_CHECKED"] = "1"  # what C leaves undefined ends a process, also of commands that tests run

from inalab.topologies import isolation
from tests import tiers
from tests.properties import register_profiles
from tests.shares import share
from tests.supervision import INSIDE, Leftovers, again, needed
from tests.turns import only, turn

if TYPE_CHECKING:
    from inalab.switches.target import Target

LEFTOVERS = pytest.StashKey[Leftovers]()
REAL = ("embedded", "bmv2")  # the targets that make networks
register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test TARGET=bmv2` runs the tests that make networks on real BMv2, and compares the recordings with it."""
    parser.addoption("--target", default="embedded", choices=REAL, help="what runs the switches of networks under test")
    parser.addoption("--deep", action="store_true", help="run the tests of tests/deep.toml, too")
    parser.addoption("--deep-share", metavar="I/N", help="the I-th of N equal shares of those that make no network")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run the session inside namespaces, unless it is there, or only tells something."""
    tells = config.option.collectonly or config.option.help or config.option.version or config.option.showfixtures
    return again() if not tells and not hasattr(config, "workerinput") and needed() else None


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C ends what tests start, however pytest was started; each process has temporary files of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setrecursionlimit(20_000)  # as the compiler of P4 sets it; Hypothesis warns if that happens in a test
    if INSIDE in os.environ:
        own = tempfile.mkdtemp(prefix=os.environ.get("PYTEST_XDIST_WORKER", "gw") + "-", dir=os.environ[INSIDE])
        os.environ["TMPDIR"] = tempfile.tempdir = own
        config.stash[LEFTOVERS] = Leftovers()


def pytest_collection(session: pytest.Session) -> None:
    """Of what is imported and collected, nothing is garbage: looking for it, now and later, would take seconds."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests in tests/network make namespaces; who may not fails at once, with a sentence. Deep tests are asked for."""
    for item in items:
        if "network" in item.path.parts:
            item.add_marker(pytest.mark.network)
    if config.args_source == pytest.Config.ArgsSource.TESTPATHS and (old := tiers.outdated(list(map(_name, items)))):
        raise pytest.UsageError(f"tests/deep.toml has patterns that stand for no test: {', '.join(old)}")
    if not config.option.deep:
        left_out = {item for item in items if tiers.deep(item.path, _name(item))}
        if config.option.deep_share:
            alone = [item for item in items if item in left_out and not {"network", "labs"} & set(item.path.parts)]
            try:
                left_out -= set(share(alone, config.option.deep_share))
            except ValueError as error:
                raise pytest.UsageError(str(error)) from None
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    items.sort(key=lambda item: not _quiet(item))  # these first: later, they would wait for tests that take long


def _quiet(item: pytest.Item) -> bool:
    return item.get_closest_marker("quiet") is not None


def _name(item: pytest.Item) -> str:
    """The node id from the last folder on."""
    return f"{item.path.parent.name}/{item.path.name}::{item.nodeid.partition('::')[2]}"


def _shared() -> Path:
    """A folder that all processes of the session see."""
    return Path(os.environ.get(INSIDE, "/dev/shm"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test runs beside others, or alone where it needs quiet."""
    with turn(_shared(), alone=_quiet(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Nothing may be left of a module, when its last test has ended."""
    try:
        return (yield)
    finally:
        if leftovers := item.config.stash.get(LEFTOVERS, None):
            leftovers.note(item.nodeid)
            ends = nextitem is None or nextitem.path != item.path
            if ends and (left := leftovers.left()):
                pytest.fail("; ".join(left), pytrace=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") and not _namespaces():
        pytest.fail("network tests make namespaces, which this user may not: run sudo make test, or make test-unit", pytrace=False)


@cache
def _namespaces() -> bool:
    return isolation.possible()


@pytest.fixture
def ports() -> Iterator[None]:
    """The ports at which P4Runtime's controllers look for switches, and P4-utils for its own."""
    with only(_shared(), "ports"):
        yield


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under test with p4/switchml.p4 at 64 integers a packet."""
    return _switchml(request, "64")


@pytest.fixture(scope="session")
def small_target(request: pytest.FixtureRequest) -> Target:
    """The same at 32 integers a packet."""
    return _switchml(request, "32")


def _switchml(request: pytest.FixtureRequest, k: str) -> Target:
    from inalab.testbed import backends

    return backends.with_switches(request.config.getoption("target")).program(Path("p4/switchml.p4"), {"K": k})


@pytest.fixture(scope="session")
def atp_target(request: pytest.FixtureRequest) -> Target:
    """The target under test with p4/atp.p4 at 64 integers a packet."""
    from inalab.schemes import registry
    from inalab.testbed import backends

    return backends.with_switches(request.config.getoption("target")).target(registry.find("atp"), 64)
