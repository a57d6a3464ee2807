"""The embedded switch against real BMv2 in tests that p4testgen generated of the repository's own programs."""

from __future__ import annotations

import pytest

from inalab.switches import stf
from inalab.switches.embedded.offline import OfflineSwitch
from tests.golden.record import PORTS
from tests.golden.record_testgen import cases, executable, names


@pytest.mark.parametrize("name", names())
def test_same_packets_as_bmv2(name: str) -> None:
    for number, text in enumerate(cases(name)):
        case = stf.parse_case(text, f"case {number}")
        assert case.ports, number
        case.ports |= set(range(PORTS))
        with OfflineSwitch(executable(name), PORTS) as switch:
            assert list(stf.run(case, switch)) == [], number
