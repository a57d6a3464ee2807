"""What the targets have in common: reads, refusals by a sentence, and failures that are told with the switch's last words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.loss import Loss, link_seed, set_loss
from inalab.switches.target import SwitchError, Target, on_interfaces, tell
from tests.interfaces import far_end
from tests.network.test_ptf_scenarios import isolated_test
from tests.packets import TestJob

REFUSED = {
    "table_add nosuch forward 1 => 1": "nosuch",
    "table_add forwarder.stations nosuch 1 => 1": "nosuch",
    "table_add forwarder.stations forward 02:00:00:00:00:01 02:00:00:00:00:02 => 1": "forwarder.stations",
    "table_add forwarder.stations forward 02:00:00:00:00:01 =>": "forward",
    "table_add forwarder.stations forward 02:00:00:00:00:01 => 70000": "70000|too large",
    "mc_node_associate 77 0": "77|INVALID_MGRP",
    "register_read nosuch 0": "nosuch",
    "register_write seen 99999 1": "99999|INVALID_INDEX",
    "counter_read admission.rejected 99": "99|INVALID_INDEX",
    "no_such_command 1": "no_such_command",
    "register_read seen 99999999999": "",
    "register_write seen 0 99999999999999999999": "",
    "set_queue_depth 99999999999": "",
    "mc_node_create 99999999999 1": "",
    "mc_node_create 1 2 2": "",
    "mirroring_add 1": "",
    "table_add forwarder.stations forward 1ff:00:00:00:00:01 => 1": "",
    "table_add forwarder.stations forward 02:00:00:00:00:01": "",
}
ACCEPTED = ["", "# a comment", "register_write seen 1 7 # and one behind", "table_set_default forwarder.stations drop_unknown =>",
            "mc_node_create 9 1 2", "mc_dump", "table_dump forwarder.stations", "table_num_entries forwarder.stations"]  # fmt: skip


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
            assert re.search(named, str(refusal.value).replace(f"`{line}`", "")), str(refusal.value)
            assert "\n" not in str(refusal.value).strip()
            control.command("register_write seen 1 5")  # on the same connection
            assert control.register("seen", 1) == 5
        for line in ACCEPTED:
            control.command(line)
        control.command(f"mc_node_update {int(control.command('mc_node_create 9 1 2').split()[-1])} 1 3")
        with pytest.raises(ControlError):
            control.register("nosuch", 0)
        control.command("reset_state")
        assert control.registers("seen")[1] == 0
        assert control.command("table_num_entries forwarder.stations").strip() == "0"
        assert int(control.command("mc_node_create 9 1").split()[-1]) == 0
        control.command("mc_mgrp_create 100")
        switch.stop(deleteIntfs=False)
        assert switch.dataplane() is None
        for read in (lambda: control.command("register_read seen 3"), lambda: control.register("seen", 3), control.ports):
            with pytest.raises(ControlError):
                read()

    isolated_test(body)


def test_a_switch_that_cannot_start_says_why(small_target: Target) -> None:
    def body() -> None:
        far_end(0)
        with pytest.raises(SwitchError, match=r"switch s (did not start|ended at once).*nosuch0"):
            on_interfaces(switch := small_target.switch("s", Path("/run"), seed=0), {0: "nosuch0"})
        assert switch.dataplane() is None

    isolated_test(body)
