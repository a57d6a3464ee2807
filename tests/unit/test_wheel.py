"""What `pip install inalab` gets: one package with all that the commands read, which works away from the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from inalab.testbed.record.runs import ROOT
from tests.mutants.copies import copy_code

FOLDERS = ("experiments", "hosts", "labs", "p4", "schemes", "switches", "testbed", "topologies")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git tracks."""
    return copy_code(ROOT, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def installed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is unpacked."""
    built = tmp_path_factory.mktemp("built")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-w", str(built), str(source)], check=True, timeout=200)
    (wheel,) = built.glob("inalab-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(built / "installed")
    return built / "installed"


def run(installed: Path, folder: Path, *words: str) -> str:
    """What a module of the installed package prints, run in another folder."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_package_has_every_file_of_the_folders(source: Path, installed: Path) -> None:
    (about,) = installed.glob("inalab-*.dist-info")
    assert {path.name for path in installed.iterdir()} == {"inalab", about.name}
    there = {str(path.relative_to(installed / "inalab")) for path in (installed / "inalab").rglob("*") if path.is_file()}
    tracked = {str(path.relative_to(source)) for name in FOLDERS for path in (source / name).rglob("*") if path.is_file()}
    assert there == {"__init__.py", *tracked}


def test_commands_work_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    assert "quickstart" in run(installed, tmp_path, "inalab.testbed.command.cli", "list")
    program = installed / "inalab" / "p4" / "switchml.p4"
    assert "switchml.p4" in run(installed, tmp_path, "inalab.switches.embedded", str(program), "--emit-c")
    run(installed, tmp_path, "inalab.testbed.command.cli", "lab", "start", "1")
    shutil.copy(installed / "inalab" / "labs" / "solutions" / "01-forward" / "forward.p4", tmp_path / "01-forward")
    checked = run(installed, tmp_path, "inalab.testbed.command.cli", "lab", "check", "01-forward")
    assert "100 of 100 points" in checked
    assert {path.name for path in tmp_path.iterdir()} == {"01-forward"}


def test_in_a_checkout_the_switch_is_also_found_by_its_folder() -> None:
    """`python -m switches.embedded` and `switches.embedded.build.build` are names that scripts rely on."""
    script = (
        "from switches.embedded.build import build; from switches.embedded.errors import CompileError; from pathlib import Path\n"
        "try: build(Path('none.p4'))\nexcept CompileError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "refused\n"
