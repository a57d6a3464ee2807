"""The commands and programs of README and tutorials, as they stand there; and the site, where every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from inalab.testbed.record.runs import ROOT
from inalab.topologies import isolation

PAGES = ("README.md", "docs/tutorials/first-run.md", "docs/tutorials/loss-sweep.md", "docs/tutorials/own-scheme.md",
         "docs/how-to/own-counter.md")  # fmt: skip
BLOCK = re.compile(r"(?:[Ss]ave[^\n]*?(?:\n[^\n]+)*?`([\w./-]+)`[^\n]*:\n\n)?```(\w+)\n(.*?)```", re.DOTALL)


def steps(page: str) -> list[str]:
    """What a reader does, in the order of the page, as lines for a shell."""
    found = []
    for number, (name, language, code) in enumerate(BLOCK.findall((ROOT / page).read_text())):
        if name:
            found.append(f"cat > {name} <<'INALAB_END'\n{code}INALAB_END\n")
        elif language == "python":
            found.append(f"cat > step{number}.py <<'INALAB_END'\n{code}INALAB_END\npython step{number}.py\n")
        elif language == "sh":
            found.append(code)
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_tells_to_do_works(page: str, tmp_path: Path) -> None:
    commands = steps(page)
    assert len(commands) > 1
    path = os.pathsep.join([str(Path(sys.executable).parent), isolation.search_path()])
    script = "set -e\n" + "".join(commands)
    script = script.replace("make experiment\n", "inalab run quickstart\n").replace(". .venv/bin/activate\n", "")
    script = script.replace("experiments/scripts/", f"{ROOT}/experiments/scripts/")
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "reference" / "api" / "index.html").exists()


@pytest.mark.timeout(1200)
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "quickstart.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert any("trials have ended" in str(output.get("data", {}).get("text/plain")) for output in shown)
