"""Captures: the names of links, the format of the files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.utils import PcapNgReader

from inalab.testbed.plan.captures import chosen, folder, parse, refuse_unknown
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial import pcapng
from tests.command_line import inalab

SMALL = TrialSettings(racks=2, workers=2)
LINKS = "h0-tor0, h1-tor0, h2-tor1, h3-tor1, tor0-root, tor1-root"


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("h2", "h2-tor1"),
        ("tor0-root", "tor0-root"),
        ("tor1", "h2-tor1, h3-tor1, tor1-root"),
        ("root", "tor0-root, tor1-root"),
        ("all", LINKS),
    ],
)
def test_a_name_is_a_link_or_all_links_of_a_node_or_all(name: str, links: str) -> None:
    assert ", ".join(link.name for link in chosen(SMALL.plan(), [name])) == links


def test_names_stand_between_commas_or_in_several_options() -> None:
    assert parse(["h0,h1", "h1, root"]) == ["h0", "h1", "root"]
    with pytest.raises(SettingsError, match="takes names with commas between them"):
        parse(["h0,"])


def test_a_link_of_one_trial_is_enough() -> None:
    trials = [Trial(str(n), {}, TrialSettings(racks=1, workers=n), 1) for n in (2, 4)]
    refuse_unknown(["h3"], trials)
    with pytest.raises(
        SettingsError, match="there is no link h4 to capture: choose one of h0-tor0, h1-tor0, h2-tor0, h3-tor0, a host"
    ):
        refuse_unknown(["h0", "h4"], trials)


def test_an_unknown_link_is_refused_before_anything_runs(tmp_path: Path) -> None:
    words = ("--set", "racks=2", "--set", "workers=2", "--results", str(tmp_path / "results"), "--capture", "h0", "--capture", "h9")
    done = inalab("run", "quickstart", *words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"inalab: there is no link h9 to capture: choose one of {LINKS}, a host or switch for all of its links, or all\n"
    )
    assert not (tmp_path / "results").exists()


def test_folders_of_trials_can_be_typed_and_differ() -> None:
    names = ["1 % loss", "1 : loss", "a/../b"]
    folders = [folder(Path("run"), n, Trial(name, {}, SMALL, 7)) for n, name in enumerate(names, start=1)]
    assert [str(f) for f in folders] == [f"run/captures/{n}-seed7" for n in ("1-1-loss", "2-1-loss", "3-a-..-b")]


def test_scapy_reads_the_files(tmp_path: Path) -> None:
    frames = [bytes(range(length)) for length in (60, 61, 62, 63, 64)]
    times = [1_700_000_000_123_456_789 + i for i in range(5)]
    blocks = [pcapng.packet(t, frame, len(frame) + 9, bool(i % 2)) for i, (t, frame) in enumerate(zip(times, frames, strict=True))]
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng.header("tor0-root", "from tor0 up to root") + b"".join(blocks))
    read = list(PcapNgReader(str(path)))
    assert [bytes(packet) for packet in read] == frames
    assert [round(packet.time * 10**9) for packet in read] == times
    assert {packet.sniffed_on for packet in read} == {"tor0-root"}
    assert [packet.direction for packet in read] == [pcapng.INBOUND, pcapng.OUTBOUND] * 2 + [pcapng.INBOUND]
    assert {packet.wirelen - len(bytes(packet)) for packet in read} == {9}
