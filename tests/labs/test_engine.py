"""The labs' engine: traces, steps, packets, the network in virtual time, grades, and what bad input is answered with."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scapy.all import IP, Ether, Raw

from inalab.testbed.command import lab
from inalab.testbed.lab import catalogue, confinement, grading, steps, trace
from inalab.testbed.lab.lab import Failure, LabError, Outcome, Report
from inalab.testbed.lab.network import OVERHEAD, SHORTEST, Link, Network, losing_these
from inalab.testbed.lab.packets import parsed, wire
from inalab.testbed.lab.scripted import Answering, Source
from tests.command_line import inalab

STEPS = [
    steps.Step("one.p4", 10, ("action Ingress.forward",)),
    steps.Step("one.p4", 11, ("standard.egress_spec",)),
    steps.Step("one.p4", 12, ("hdr.ipv4.ttl",)),
    steps.Step("", 0, (), egress=1),
    steps.Step("one.p4", 20, ("hdr.ipv4.ttl",)),
    steps.Step("", 0, (), egress=2),
    steps.Step("one.p4", 30, ("hdr.ipv4.tos",)),
]


def shown(step: steps.Step) -> str:
    return f"{step.file}:{step.line}"


def packet(**fields: Any) -> Any:
    return parsed(
        wire(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2", **fields) / Raw(b"x"))
    )


def failure(expected: list[tuple[int, Any]], came: list[tuple[int, Any]], **more: Any) -> str | None:
    return trace.failure((1, packet()), expected, came, STEPS, shown, **more)


def test_packets_that_are_as_expected_leave_no_trace() -> None:
    assert failure([(1, packet()), (2, packet(ttl=3))], [(2, packet(ttl=3)), (1, packet())]) is None


def test_a_field_that_differs_is_marked_and_the_line_that_wrote_it_last_for_this_copy_is_named() -> None:
    wording = failure([(2, packet(ttl=63))], [(2, packet(ttl=62))], ignoring=["chksum"])
    assert wording is not None
    (marked,) = [line for line in wording.splitlines() if "<-- differs" in line]
    assert marked.split()[:3] == ["ttl", "63", "62"]
    assert wording.endswith("one.p4:12")  # line 20 is of another copy's egress


def test_a_packet_at_another_port_names_the_line_that_chose_the_port() -> None:
    wording = failure([(3, packet())], [(2, packet())])
    assert wording is not None and "nothing at port 3, and at port 2" in wording and wording.endswith("one.p4:11")


def test_a_packet_too_many_and_a_packet_too_few() -> None:
    assert "Expected: no packet. Came, too, at port 4" in str(failure([], [(4, packet())]))
    assert "Came: no packet." in str(failure([(4, packet())], []))


def test_what_no_statement_wrote_is_said() -> None:
    wording = failure([(1, packet(id=7))], [(1, packet(id=8))], ignoring=["chksum"])
    assert wording is not None and "No statement that this packet reached decided about IP id" in wording
    assert "one.p4:20" in wording  # the last one that it reached


def test_ignored_fields_may_differ_and_absent_headers_may_not() -> None:
    assert failure([(1, packet(ttl=1))], [(1, packet(ttl=2))], ignoring=["ttl", "chksum"]) is None
    without = parsed(bytes(packet())[:14])
    assert "the header is absent" in str(failure([(1, packet())], [(1, without)], ignoring=["type"]))


def test_a_packet_takes_its_time_on_every_link() -> None:
    source, sink = Source([(0.0, bytes(100)), (0.0, bytes(20))]), Source(awaited=2)
    network = Network(hosts={"a": source, "b": sink})
    network.join("a", 0, "b", 0, Link(rate=10.0, delay=7.0))
    network.run({})
    first = 8 * (100 + OVERHEAD) / 10
    assert [time for time, _ in sink.arrived] == pytest.approx([first + 7, first + 8 * (SHORTEST + OVERHEAD) / 10 + 7])


def test_packets_are_lost_where_the_loss_says_so() -> None:
    source, sink = Source([(100.0 * n, bytes([n])) for n in range(4)]), Source(awaited=4)
    network = Network(loss=losing_these(("a", "b", 2)), hosts={"a": source, "b": sink})
    network.join("a", 0, "b", 0)
    network.run({}, quiet=True)
    assert [data[0] for _, data in sink.arrived] == [0, 1, 3]
    assert network.lost == 1


def test_a_run_ends_though_packets_go_round() -> None:
    network = Network(hosts={"a": Source([(0.0, bytes(60))], awaited=10**9), "b": Answering(lambda now, data: [data])})
    network.hosts["a"].receive = lambda now, data: [("send", data)]  # type: ignore[method-assign]
    network.join("a", 0, "b", 0)
    with pytest.raises(Failure, match="after 500 packets a has not finished"):
        network.run({}, most_packets=500)


def test_a_host_that_sets_timers_for_ever_is_told() -> None:
    class Restless:
        def start(self, now: float, **given: object) -> list[tuple[str, object]]:
            return [("timer", (0, "again"))]

        def receive(self, now: float, packet: bytes) -> list[tuple[str, object]]:
            return []

        def expire(self, now: float, timer: str) -> list[tuple[str, object]]:
            return [("timer", (0, "again"))]

    with pytest.raises(Failure, match="after 200000 timers h1 has not finished"):
        Network(hosts={"h1": Restless()}).run({})


def test_submissions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "work", tmp_path / "b" / "work", tmp_path / "c"]
    names = [grading.name_of(folder, folders) for folder in folders]
    assert names == ["a_work", "b_work", "c"]


def test_a_submission_that_nbgrader_collected_has_the_students_name(tmp_path: Path) -> None:
    folders = [tmp_path / "submitted" / student / "05-loss" for student in ("anna", "ben")]
    assert [grading.name_of(folder, folders) for folder in folders] == ["anna", "ben"]
    assert grading.name_of(folders[0], folders[:1]) == "05-loss"


def test_a_lab_is_found_by_number_name_and_title() -> None:
    assert {catalogue.find(word) for word in ("3", "03-sum", "sum")} == {"03-sum"}
    with pytest.raises(LabError, match="there is no lab nonsense"):
        catalogue.find("nonsense")


def test_a_starter_is_copied_with_what_is_given_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    files = {str(path) for path in catalogue.begin("04-window", folder)}
    lab = {"README.md", "P4.md", "lab.toml", "topology.json", "s1-commands.txt"}
    assert files == lab | {"pool.p4", "worker.py", "headers.p4", "wire.py"}
    assert catalogue.lab_of(folder) == "04-window"
    with pytest.raises(LabError, match="exists and is not empty"):
        catalogue.begin("04-window", folder)


@pytest.mark.parametrize("name", catalogue.names())
def test_links_of_a_copied_readme_lead_to_files_beside_it(name: str, tmp_path: Path) -> None:
    catalogue.begin(name, tmp_path / "work")
    for link in re.findall(r"\]\(([^)#]+)", (tmp_path / "work/README.md").read_text()):
        assert link.startswith("https://") or (tmp_path / "work" / link).is_file(), link


@pytest.mark.parametrize(
    ("content", "wording"),
    [(None, "is no lab"), ("lab = ", "cannot be read"), ("lab = 3", "must say which lab"), ('lab = "../x"', "must say which lab"),
     ('lab = "nonsense"', "there is no lab nonsense"), ('lab = "²"', "must say which lab|there is no lab"),
     (f'lab = "{"1" * 5000}"', "there is no lab 1111"), (f"lab = {'[' * 9000}", "cannot be read")],
)  # fmt: skip
def test_a_folder_that_is_no_lab_is_refused_in_one_sentence(content: str | None, wording: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "lab.toml").write_text(content)
    with pytest.raises(LabError, match=wording):
        catalogue.lab_of(tmp_path)


def test_the_command_line_checks_and_grades(tmp_path: Path) -> None:
    solved, begun = tmp_path / "solved", tmp_path / "begun"
    for folder in (solved, begun):
        assert inalab("lab", "start", "1", str(folder)).returncode == 0
    (solved / "forward.p4").write_text((catalogue.SOLUTIONS / "01-forward/forward.p4").read_text())
    assert inalab("lab", "check", str(solved)).returncode == 0
    stopped = inalab("lab", "check", "--stop", str(begun))
    assert stopped.returncode == 3 and "4 tasks not run" in stopped.stdout
    odd = tmp_path / "m[" / "x]"  # rich reads [/x] as markup, where it is let
    odd.mkdir(parents=True)
    done = inalab("lab", "grade", str(solved), str(begun), str(odd), "--out", str(tmp_path / "grades"))
    assert done.returncode == 1 and "/100" in done.stdout and f"not graded: {odd} is no lab" in done.stdout
    grades = json.loads((tmp_path / "grades/grades.json").read_text())
    assert [g["points"] for g in grades] == [100, 0, 0]
    assert json.loads((tmp_path / "grades/solved/results.json").read_text())["score"] == 100
    assert (tmp_path / "grades/grades.csv").read_text().splitlines()[1] == "01-forward,,,solved,,,,100.0,0.0,100.0,100"


def test_the_table_fits_80_columns_and_says_why_points_are_lost() -> None:
    tasks = [Outcome(f"task {n}", 0 if n == 2 else 15, 15, "it\n  differs" if n == 2 else "") for n in range(1, 11)]
    reports = [Report("05-loss", f"/tmp/{name}", tasks) for name in ("anna", "a-name-that-is-longer-than-any-column-can-be")]
    (table,) = grading.tables([*reports, Report("?", "/tmp/odd", [Outcome("submission", 0, 0, "no lab")])])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table)
    head, most, anna, other = console.export_text().splitlines()
    assert head.split() == [*map(str, range(1, 11)), "points"] and most.split() == ["05-loss", *["/15"] * 10, "/150"]
    assert anna.split() == ["anna", "15", "0", *["15"] * 8, "135"] and other.startswith("a-name-that-is-longer-t…")
    assert grading.lost(reports[0], "anna") == "anna: 2, task 2: it differs"
    assert grading.lost(Report("05-loss", "x", tasks[2:]), "x") == ""


def test_grades_are_kept_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def graded(folder: Path, lab: str | None, unconfined: bool) -> Report:
        if folder.name == "b":
            raise KeyboardInterrupt
        return Report("01-forward", str(folder), [Outcome("one", 10, 10)])

    monkeypatch.setattr(grading, "graded", graded)
    monkeypatch.setattr(confinement, "possible", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        lab.grade([tmp_path / "a", tmp_path / "b"], None, tmp_path / "grades", False)
    (first,) = json.loads((tmp_path / "grades/grades.json").read_text())
    assert first["points"] == 10


def test_a_note_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lab.toml")
    with pytest.raises(LabError, match="it is no file"):
        catalogue.lab_of(tmp_path)
