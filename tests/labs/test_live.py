"""The labs' work on real interfaces, in real time: inalab p4run topology.json --hosts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from inalab.testbed.lab import catalogue
from inalab.topologies.exercise import read
from tests.command_line import inalab

TOPOLOGIES = {path.parent.parent.name: path.read_text() for path in sorted(Path("labs").glob("*/starter/topology.json"))}
WITH_HOSTS = [name for name, text in TOPOLOGIES.items() if '"run"' in text]


def live(folder: Path) -> subprocess.CompletedProcess[str]:
    return inalab("p4run", "topology.json", "--hosts", env={"PYTHONPATH": str(Path.cwd())}, cwd=folder, timeout=90)


def begun(name: str, folder: Path, solved: bool = True) -> Path:
    catalogue.begin(name, folder)
    if solved:
        shutil.copytree(catalogue.SOLUTIONS / name, folder, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("name", WITH_HOSTS)
def test_a_solution_is_right_on_real_interfaces(name: str, tmp_path: Path) -> None:
    folder = begun(name, tmp_path / "work")
    done = live(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    hosts = read(folder / "topology.json", folder).hosts
    sentences = [line for line in done.stdout.splitlines() if line.partition(":")[0] in hosts]
    assert len(sentences) == len(hosts)
    assert all("is right;" in line or "server: finished;" in line or "[1, 2, 3, 4, 5]" in line for line in sentences), sentences


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    folder = begun("03-sum", tmp_path / "work")
    topology = (folder / "topology.json").read_text()
    (folder / "topology.json").write_text(
        topology.replace("--of 1/4", "--of 2/4").replace("--tensor 16", "--tensor 16 --seconds 5")
    )
    done = live(folder)
    assert done.returncode == 1
    assert "its sum is wrong: 16 of 16 elements differ" in done.stdout


def test_a_host_that_does_not_finish_is_told(tmp_path: Path) -> None:
    folder = begun("03-sum", tmp_path / "work", solved=False)
    topology = (folder / "topology.json").read_text()
    (folder / "topology.json").write_text(topology.replace("--tensor 16", "--tensor 16 --seconds 2"))
    done = live(folder)
    assert done.returncode == 1 and "h1: it has not finished after 2 s" in done.stdout


def test_a_topology_without_hosts_that_run_is_refused(tmp_path: Path) -> None:
    done = live(begun("01-forward", tmp_path / "work"))
    assert done.returncode == 1 and done.stderr == "inalab: --hosts needs hosts with a 'run' in the topology, and no --command\n"
