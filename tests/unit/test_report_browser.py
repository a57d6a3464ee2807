"""The report and the index in a real browser: opened from files, clicked, and held to trials.jsonl."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from inalab.testbed.record.runs import Run
from inalab.testbed.report.page import command, write_report
from tests.browser import Browser
from tests.runs import failed, invalid, make_run, trial

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: BROWSER=1 make setup installs it"),
    pytest.mark.timeout(120),
]
SATURATED = "the processors were saturated for 32 % of the time: lower <host_rate>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two names with five seeds each, in no order; one trial is not valid and two have failed."""
    trials = [
        trial(name, seed, tat=base * (1 + 0.1 * ((3 * seed) % 5)), retransmissions=(977 * seed) % 1300)
        for seed in (1, 2, 3, 4, 5)
        for name, base in (("no faults", 0.1), ("1 % loss", 0.9))
    ]
    trials[3] = invalid(trials[3], SATURATED)
    trials += [failed("two <racks>", seed, f"worker {seed} was killed by SIGKILL") for seed in (1, 2)]
    trials.append(trial("as set", 1, tat=0.0456))
    results = tmp_path_factory.mktemp("report") / "results"
    made = make_run(results, trials, set=["workload=a b"], trials=[t["name"] for t in trials])
    write_report(made, ["The models are equal."], [("tat", "TAT & steps", drawing(9, 3.6)), ("loss", "Loss", drawing(9, 6.2))])
    return made


def drawing(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height))
    figure.subplots().plot([1, 3, 2])
    return figure


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests: to start it takes longer than they do."""
    assert CHROMIUM
    with Browser(CHROMIUM, tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, run: Run) -> Iterator[Browser]:
    """The report, open; at the end it must have complained of nothing and asked for nothing but itself."""
    browser.open((run.folder / "report.html").as_uri())
    yield browser
    assert browser.complaints() == []
    asked = browser.requests()
    assert (run.folder / "report.html").as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def recorded(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "trials.jsonl").read_text().splitlines()]


CELLS = """(id, heading) => {
    const table = document.getElementById(id);
    const titles = [...table.tHead.rows[0].cells].map((cell) => cell.querySelector("span").textContent);
    const column = titles.indexOf(heading);
    return [...table.tBodies[0].rows].filter((row) => row.getClientRects().length).map((row) => row.cells[column])
        .map((cell) => [cell.innerText.trim(), cell.dataset.value ?? null]);
}"""


def column(page: Browser, heading: str, table: str = "trials") -> list[str]:
    """What is seen of a column, from top to bottom."""
    return [text for text, _ in cells(page, heading, table)]


def cells(page: Browser, heading: str, table: str = "trials") -> list[tuple[str, str | None]]:
    """What is seen in the cells of a column, and what they are sorted by."""
    return [(text, value) for text, value in page.evaluate(f"({CELLS})({json.dumps(table)}, {json.dumps(heading)})")]


def header(page: Browser, heading: str, table: str = "trials") -> str:
    """A selector of a column's header."""
    titles = page.evaluate(f"[...document.querySelectorAll('#{table} thead th')].map((th) => th.querySelector('span').textContent)")
    return f"#{table} thead th:nth-child({titles.index(heading) + 1})"


def test_the_table_holds_the_numbers_of_trials_jsonl(page: Browser, run: Run) -> None:
    trials = recorded(run)
    assert len(trials) == 13
    assert column(page, "trial") == [t["name"] for t in trials]
    assert column(page, "seed") == [str(t["seed"]) for t in trials]
    for heading, key, scale, digits in (
        ("median TAT", "tat_median", 1000, ".1f"), ("step", "step_median", 1000, ".1f"), ("ATE/s", "ate_per_second", 1, ",.0f"),
        ("accuracy", "final_accuracy", 100, ".1f"), ("resent", "retransmissions", 1, ",.0f"), ("duration", "duration", 1, ".2f"),
    ):  # fmt: skip
        values = [t.get("metrics", {}).get(key) for t in trials]
        assert column(page, heading) == ["–" if v is None else format(scale * v, digits) for v in values], heading
        exact = [value for _, value in cells(page, heading)]
        assert [None if value is None else float(value) for value in exact] == values, heading
    assert column(page, "valid") == ["yes"] * 3 + ["no"] + ["yes"] * 6 + ["failed"] * 2 + ["yes"]
    reasons = page.evaluate("[...document.querySelectorAll('.reasons dd')].map((dd) => dd.innerText)")
    assert reasons == [reason for t in trials for reason in t["problems"]]
    assert SATURATED in reasons


def test_a_click_sorts_by_number_and_a_second_one_reverses(page: Browser, run: Run) -> None:
    values = [t["metrics"]["tat_median"] for t in recorded(run) if "metrics" in t]
    rising = [f"{1000 * v:.1f}" for v in sorted(values)]
    assert rising != sorted(rising)  # as text they would stand otherwise
    assert column(page, "median TAT") != [*rising, "–", "–"]
    where = header(page, "median TAT")
    page.click(f"{where} button")
    assert column(page, "median TAT") == [*rising, "–", "–"]
    assert page.evaluate(f"document.querySelector('{where}').getAttribute('aria-sort')") == "ascending"
    page.click(f"{where} button")
    assert column(page, "median TAT") == [*reversed(rising), "–", "–"]
    assert page.evaluate(f"document.querySelector('{where}').getAttribute('aria-sort')") == "descending"
    assert page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
    page.evaluate(f"document.querySelector('{header(page, 'trial')} button').focus()")
    page.press("Enter")
    assert column(page, "trial") == sorted(t["name"] for t in recorded(run))


OPEN = "document.querySelector('dialog').open"


def test_a_plot_is_enlarged_and_closed(page: Browser) -> None:
    assert page.evaluate(OPEN) is False
    small = page.evaluate("document.querySelector('#plot-tat img').getBoundingClientRect().width")
    page.click("#plot-tat button")
    assert page.evaluate(OPEN) is True
    page.wait_until("document.querySelector('dialog img').complete")
    image = page.evaluate(
        "(({naturalWidth, naturalHeight, src, alt, width}) => [naturalWidth, naturalHeight, src.slice(0, 18), alt, width])"
        "(document.querySelector('dialog img'))"
    )
    assert image[0] > image[1] > 0
    assert image[2:4] == ["data:image/svg+xml", "TAT & steps"]
    assert image[4] > 1.2 * small
    page.press("Escape")
    page.wait_until(f"!{OPEN}")
    page.evaluate("document.querySelector('#plot-loss button').focus()")
    page.press("Enter")
    assert page.evaluate(OPEN) is True
    assert page.evaluate("document.querySelector('dialog p').textContent") == "Loss"
    page.click("dialog img")
    assert page.evaluate(OPEN) is False


def test_commands_are_those_that_run_it_again_and_can_be_copied(page: Browser, run: Run) -> None:
    shown = page.evaluate("[...document.querySelectorAll('.command code')].map((code) => code.textContent)")
    assert shown == [command(run.record)] * 3
    assert "'workload=a b'" in shown[0]
    page.evaluate("void document.addEventListener('copy', () => { window.copied = String(document.activeElement.value); })")
    page.click("#plot-tat .command button")
    page.wait_until("document.querySelector('#plot-tat .command button').textContent === 'copied'")
    assert page.evaluate("window.copied") == shown[1]


def test_filter_and_all_measurements(page: Browser) -> None:
    page.click("input[data-filter]")
    page.type("1 % loss")
    assert column(page, "trial") == ["1 % loss"] * 5
    assert page.evaluate("document.querySelector('input[data-filter]').nextElementSibling.textContent") == "5 of 13"
    sent = header(page, "sent")
    assert page.evaluate(f"document.querySelector('{sent}').getClientRects().length") == 0
    page.click("button[data-details]")
    assert page.evaluate(f"document.querySelector('{sent}').getClientRects().length") == 1
    assert column(page, "sent") == ["1,234"] * 5


def test_medians_over_seeds(page: Browser) -> None:
    assert column(page, "valid", "medians") == ["5 of 5", "4 of 5", "0 of 2", "1 of 1"]
    assert column(page, "median TAT", "medians") == ["120.0\n100.0 – 140.0", "1125.0\n900.0 – 1260.0", "–", "45.6"]


def test_a_phone_need_not_scroll_the_page_sideways(tmp_path: Path, run: Run) -> None:
    assert CHROMIUM
    with Browser(CHROMIUM, tmp_path / "phone", 390, 844, mobile=True) as phone:
        for path in (run.folder / "report.html", run.folder.parent.parent / "index.html"):
            phone.open(path.as_uri())
            assert phone.evaluate("document.documentElement.scrollWidth") <= 390
            assert phone.complaints() == []


def test_a_screen_of_1200_pixels_shows_the_main_columns_of_the_quickstart(tmp_path: Path) -> None:
    faults = {"no faults": 0.0, "0.1 % loss": 0.001, "1 % loss": 0.01, "1 % loss in bursts": 0.01, "one worker 3× slower": 0.0}
    trials = [trial(name, queries=35_450, retransmissions=2_400, ate_per_second=182_016) for name in faults]
    for made, loss in zip(trials, faults.values(), strict=True):
        made["settings"]["loss"] = loss
    made = make_run(tmp_path / "results", trials, trials=list(faults), quick=True, description="Two racks of four workers.")
    write_report(made, ["Something."], [])
    assert CHROMIUM
    with Browser(CHROMIUM, tmp_path / "screen", 1200, 900) as screen:
        screen.open((made.folder / "report.html").as_uri())
        assert screen.evaluate("[...document.querySelectorAll('.wide')].every((box) => box.scrollWidth <= box.clientWidth)")
        assert screen.evaluate("document.querySelector('h1').innerText") == "quickstart quick"
        assert "Two racks of four workers." in screen.evaluate("document.body.innerText")


def test_the_index_leads_to_the_report(browser: Browser, run: Run) -> None:
    other = make_run(run.folder.parent.parent, [trial()], experiment="quickstart", seed=22, started="2026-01-01T00:00:00+0000")
    write_report(other, ["Something else."], [])
    index = run.folder.parent.parent / "index.html"
    browser.open(index.as_uri())
    assert column(browser, "seed", "runs") == ["1", "22"]  # the newest first
    assert column(browser, "trials", "runs") == ["13 of 13", "1 of 1"]
    assert column(browser, "not valid", "runs") == ["1", "0"]
    assert column(browser, "failed", "runs") == ["2", "0"]
    assert column(browser, "first finding", "runs") == ["The models are equal.", "Something else."]
    browser.click(f"{header(browser, 'started', 'runs')} button")
    assert column(browser, "seed", "runs") == ["22", "1"]
    browser.wait_until("[...document.querySelectorAll('#runs img')].every((image) => image.naturalWidth > 0)")
    assert browser.evaluate("document.querySelectorAll('#runs img').length") == 1
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []
    browser.events.clear()
    browser.click("#runs tbody tr:nth-child(2) th a")
    browser.wait_for_load()
    assert browser.evaluate("location.href") == (run.folder / "report.html").as_uri()
    assert browser.evaluate("document.querySelector('h1').textContent") == "quickstart"
