"""The pages of docs/reference that are written from the code are those that are committed."""

from __future__ import annotations

import pytest

from inalab.schemes import registry
from inalab.testbed.command.listing import first_line
from inalab.testbed.document import reference
from inalab.testbed.plan import experiment
from inalab.testbed.plan.settings import TrialSettings, own_names
from inalab.testbed.record.runs import ROOT


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == reference.PAGES[name](), "run make docs"


def test_every_setting_is_there_once() -> None:
    page = reference.settings()
    own = [f"{scheme}.{name}" for scheme in registry.names() for name in own_names(scheme)]
    for key in [*(TrialSettings.model_fields.keys() - {"own"}), *own]:
        assert page.count(f"\n| `{key}` |") == 1, key


def test_what_is_listed_in_a_line_is_a_sentence() -> None:
    wording = {name: experiment.summary(experiment.load(name)) for name in experiment.names()}
    wording |= {name: first_line(registry.find(name)) for name in registry.names()}
    assert not {name: line for name, line in wording.items() if not line.endswith((".", ")."))}
