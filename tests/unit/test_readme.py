"""The README and the index of the documentation: short, complete, and without links that lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inalab.schemes import registry
from inalab.testbed.plan import experiment
from inalab.testbed.record.runs import ROOT

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_it_is_read_in_a_minute() -> None:
    assert README.count("\n") <= 120


def test_it_names_every_scheme_and_experiments_that_there_are() -> None:
    listed = README[README.index("The schemes are") :].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", listed)) == set(registry.names())
    assert set(re.findall(r"inalab run ([\w-]+)", README)) <= set(experiment.names())


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)\)", index)}
    assert {page for page in PAGES if (ROOT / "docs") in page.parents} - {ROOT / "docs" / "README.md"} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}#{anchor}"
