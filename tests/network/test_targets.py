"""What the targets have in common: reads, refusals by a sentence, and failures that are told with the switch's last words."""

from __future__ import annotations

from pathlib import Path

import pytest

from switches.control import ControlError
from switches.switchml import Loss, link_seed, set_loss
from switches.target import SwitchError, Target, on_interfaces, tell
from tests.interfaces import far_end
from tests.network.test_ptf_scenarios import isolated_test
from tests.packets import TestJob

REFUSED = {
    "table_add nosuch forward 1 => 1": "nosuch",
    "table_add forwarder.stations nosuch 1 => 1": "nosuch",
    "table_add forwarder.stations forward 02:00:00:00:00:01 02:00:00:00:00:02 => 1": "forwarder.stations",
    "table_add forwarder.stations forward 02:00:00:00:00:01 =>": "forward",
    "table_add forwarder.stations forward 02:00:00:00:00:01 => 70000": "70000",
    "mc_node_associate 77 0": "77",
    "register_read nosuch 0": "nosuch",
    "register_write seen 99999 1": "99999",
    "counter_read admission.rejected 99": "99",
    "no_such_command 1": "no_such_command",
}


def test_commands_do_the_same_and_are_refused_by_a_sentence(small_target: Target) -> None:
    def body() -> None:
        far_end(0)
        switch = on_interfaces(small_target.switch("s", Path("/run"), seed=0), {0: "s0"})
        control = tell(switch, [*TestJob(2).commands(), *set_loss(0, 0, Loss.bernoulli(0.5), link_seed(1, 0, 0))])
        control.command("register_write seen 3 4000000000")
        assert control.register("seen", 3) == 4000000000
        assert control.registers("seen")[2:5] == [0, 4000000000, 0]
        assert control.command("register_read seen 3").strip() == "seen[3]= 4000000000"
        control.command("register_reset seen")
        assert not any(control.registers("seen"))
        assert control.counter("admission.rejected", 0) == 0
        assert control.ports()[0]["received"] == 0
        assert "admission.jobs" in control.command("show_tables")
        for line, named in REFUSED.items():
            with pytest.raises(ControlError) as refusal:
                control.command(line)
            assert named in str(refusal.value)
            assert "\n" not in str(refusal.value).strip()
        with pytest.raises(ControlError):
            control.register("nosuch", 0)
        switch.stop(deleteIntfs=False)
        assert switch.dataplane() is None
        with pytest.raises(ControlError):
            control.command("register_read seen 3")

    isolated_test(body)


def test_a_switch_that_cannot_start_says_why(small_target: Target) -> None:
    def body() -> None:
        far_end(0)
        with pytest.raises(SwitchError, match=r"switch s (did not start|ended at once).*nosuch0"):
            on_interfaces(small_target.switch("s", Path("/run"), seed=0), {0: "nosuch0"})

    isolated_test(body)
