"""Two runs held against each other, with numbers of which the answer is known."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.command.terminal import Terminal
from inalab.testbed.record.runs import ResultsError, Run, load_run
from inalab.testbed.report.compare import DIFFERENT, EQUAL, Comparison, Finding, compare, show_comparison
from tests.command_line import inalab
from tests.runs import failed, invalid, make_run, trial

SEEDS = tuple(range(1, 11))
NOISE = (0.98, 1.01, 1.0, 0.99, 1.02, 0.985, 1.015, 1.005, 0.995, 1.012)  # of the trials of a run, seed by seed
SHUFFLED = (1.012, 0.98, 1.01, 1.02, 0.99, 1.005, 0.985, 1.015, 1.0, 0.995)  # the same, of another run


def seeds(factor: float = 1.0, name: str = "no faults", noise: Sequence[float] = NOISE, **change: Any) -> list[dict[str, Any]]:
    """Trials whose times are 100 ms but for noise and a factor; four metrics of them vary."""
    return [trial(name, s, 0.1 * n * factor, **change) for s, n in zip(SEEDS, noise, strict=False)]


def both(tmp_path: Path, a: list[dict[str, Any]], b: list[dict[str, Any]], **change: Any) -> Comparison:
    return compare(make_run(tmp_path / "a", a), make_run(tmp_path / "b", b, **change))


def found(result: Comparison, key: str, name: str = "no faults") -> Finding:
    return next(f for f in result.findings[name] if f.metric.key == key)


def test_equal_runs_are_equal(tmp_path: Path) -> None:
    result = both(tmp_path, seeds(), seeds())
    assert result.equal
    assert (result.different, result.differences, result.notes, result.context) == ([], [], [], [])
    assert {f.different for f in result.findings["no faults"]} == {False}
    assert found(result, "tat_median").basis == "10 pairs"
    assert result.comparisons == 0


def test_pairs_find_a_shift_that_is_smaller_than_the_spread_of_seeds(tmp_path: Path) -> None:
    """Every seed is 1 % slower in B, which ran in another order; the medians' own intervals, ±2 % wide, overlap."""
    result = both(tmp_path, seeds(), [*reversed(seeds(1.01))])
    tat = found(result, "tat_median")
    assert tat.first.overlaps(tat.second)
    assert tat.change is not None
    assert tat.change.median == pytest.approx(1.01) == tat.change.low == tat.change.high
    assert tat.different
    assert tat.p == pytest.approx(4 * 2**-9)  # ten of one sign, and four comparisons
    assert result.different == ["no faults"]
    assert not found(result, "final_accuracy").different


def test_pairs_that_go_both_ways_are_no_difference(tmp_path: Path) -> None:
    result = both(tmp_path, seeds(), seeds(noise=SHUFFLED))
    assert found(result, "tat_median").different is False
    assert result.equal and not result.undecided


def test_counts_that_can_be_zero_are_paired_by_their_difference(tmp_path: Path) -> None:
    more = [entry | {"metrics": entry["metrics"] | {"retransmissions": 10 + s}} for entry, s in zip(seeds(), SEEDS, strict=True)]
    assert found(both(tmp_path, seeds(), more), "retransmissions").different is True
    few = found(both(tmp_path, seeds(), [*seeds()[:6], *more[6:]]), "retransmissions")  # four of ten differ, in one direction
    assert few.different is False
    assert few.p == pytest.approx(2**-3)


@pytest.mark.parametrize(("pairs", "needed"), [(1, 8), (3, 8), (5, 8), (7, 8), (8, None)])
def test_too_few_pairs_cannot_tell_however_far_apart_they_are(tmp_path: Path, pairs: int, needed: int | None) -> None:
    """n pairs of one sign have a chance of 2^(1 - n): for four comparisons that is below 5 % from n = 8 on."""
    a, b = make_run(tmp_path / "a", seeds()[:pairs]), make_run(tmp_path / "b", seeds(5.0)[:pairs])
    result = compare(a, b)
    code, text = printed(a, b)
    if needed is None:
        assert result.different == ["no faults"]
        assert found(result, "tat_median").p == pytest.approx(4 * 2**-7)
        assert code == DIFFERENT
        return
    assert found(result, "tat_median").different is None
    assert result.undecided == ["no faults"]
    assert code == EQUAL
    assert "differs in" not in text
    assert f"• {pairs} seed{'s' * (pairs > 1)} cannot tell: run {needed} or more (no difference found, and none could be" in flat(
        text
    )
    assert "in: no faults)" in flat(text)


def test_one_comparison_needs_six_pairs(tmp_path: Path) -> None:
    def run(name: str, times: Sequence[float]) -> Run:
        return make_run(tmp_path / name, [trial(seed=s) | {"metrics": {"duration": t}} for s, t in enumerate(times)])

    five, six = (compare(run(f"a{n}", range(1, n + 1)), run(f"b{n}", range(2, n + 2))) for n in (5, 6))
    assert (five.different, five.undecided) == ([], ["no faults"])
    assert (six.different, six.undecided) == (["no faults"], [])
    _, text = printed(run("a3", (1, 2, 3)), run("b3", (4, 5, 6)))
    assert "3 seeds cannot tell: run 6 or more" in flat(text)
    assert "confidence 95 % over one comparison" in flat(text)


def test_more_comparisons_need_more_evidence(tmp_path: Path) -> None:
    """Among twenty trials one is slower at all ten seeds: 80 comparisons need 2^-9 times 80, which ten seeds cannot give."""
    names = [f"point {n}" for n in range(20)]
    a = [entry for name in names for entry in seeds(name=name)]
    b = [entry for name in names for entry in seeds(1.1 if name == "point 3" else 1.0, name, SHUFFLED)]
    first, second = make_run(tmp_path / "a", a), make_run(tmp_path / "b", b)
    result = compare(first, second)
    assert result.comparisons == 80
    assert (result.different, result.undecided) == ([], names)
    assert "10 seeds cannot tell: run 12 or more" in flat(printed(first, second)[1])


def test_a_setting_that_a_scheme_ignores_makes_no_difference(tmp_path: Path) -> None:
    """Two runs of a ring at other slots, whose times differ by noise alone; with three seeds nothing could be found at all."""
    for n, sentence in ((10, "no difference found in: ring"), (3, "3 seeds cannot tell")):
        a, b = (
            [
                entry | {"settings": entry["settings"] | {"scheme": "ring", "slots": slots}}
                for entry in seeds(name="ring", noise=noise)
            ]
            for slots, noise in ((64, NOISE), (8, [1.001 * x for x in NOISE] if n == 3 else SHUFFLED))
        )
        first, second = make_run(tmp_path / f"a{n}", a[:n]), make_run(tmp_path / f"b{n}", b[:n])
        code, text = printed(first, second)
        assert code == EQUAL
        assert "ring: slots" in text
        assert sentence in flat(text)
        assert "differs in" not in text


def test_other_seeds_are_compared_by_ranks(tmp_path: Path) -> None:
    other = [entry | {"seed": entry["seed"] + 10} for entry in seeds(noise=SHUFFLED)]
    near = both(tmp_path, seeds(), other)
    assert found(near, "tat_median").basis == "10, 10 seeds"
    assert found(near, "tat_median").different is False
    assert f"no faults: only A has seeds {', '.join(map(str, SEEDS))}" in near.differences
    moved = [entry | {"seed": entry["seed"] + 10} for entry in seeds(1.1)]
    far = both(tmp_path, seeds(), moved)
    assert found(far, "tat_median").different is True
    assert found(far, "tat_median").p == pytest.approx(4 * 2 / math.comb(20, 10))
    few = both(tmp_path, seeds()[:4], moved[:4])  # 4 · 2/70 is above 5 %
    assert found(few, "tat_median").different is None
    assert found(both(tmp_path, seeds()[:5], moved[:5]), "tat_median").different is True


@pytest.mark.parametrize("tat", [0.1001, 0.11])
def test_one_seed_shows_its_steps_and_cannot_tell(tmp_path: Path, tat: float) -> None:
    result = both(tmp_path, [trial()], [trial(tat=tat)])
    for key in ("tat_median", "step_median"):
        assert found(result, key).different is None
        assert found(result, key).basis == "1 pair"
    assert (found(result, "tat_median").second.median, found(result, "tat_median").second.n) == (pytest.approx(tat), 20)
    assert found(result, "step_median").second.median == pytest.approx(tat + 0.05)
    assert found(result, "final_accuracy").different is False  # equal
    assert result.equal


def test_a_trial_that_only_one_run_has(tmp_path: Path) -> None:
    result = both(tmp_path, [*seeds(), *seeds(name="1 % loss")], seeds())
    assert result.differences == ["only A has the trial 1 % loss"]
    assert not result.equal
    assert list(result.findings) == ["no faults"]


def test_a_name_with_other_factors_is_another_trial(tmp_path: Path) -> None:
    result = both(tmp_path, [trial()], [trial() | {"factors": {"faults": "none", "k": 256}}])
    assert result.differences == [
        'only A has the trial no faults {"faults": "no faults"}',
        'only B has the trial no faults {"faults": "none", "k": 256}',
    ]


def test_trials_that_are_not_valid_are_left_out_and_named(tmp_path: Path) -> None:
    bad = invalid(trial(seed=5, tat=9.0), "saturated")
    result = both(tmp_path, seeds()[:5], [*seeds()[:4], bad])
    assert result.differences == ["no faults: seed 5 not valid in B alone, so left out of the medians"]
    assert found(result, "tat_median").basis == "4 pairs"
    assert found(result, "tat_median").different is False
    result = both(tmp_path, [*seeds()[:4], bad], [*seeds()[:4], failed("no faults", 5, "worker 1 died")])
    assert result.notes == ["no faults: seed 5 not valid in either, so left out of the medians"]
    assert result.equal
    assert "no faults" not in both(tmp_path, [bad], [bad]).findings


def test_other_models_at_the_same_seed(tmp_path: Path) -> None:
    changed = [
        trial(seed=s, tat=0.1 * n, model_digest="f" * 64 if s == 3 else f"{s:064x}") for s, n in zip(SEEDS, NOISE, strict=True)
    ]
    result = both(tmp_path, seeds(), changed)
    assert result.differences == ["no faults: the final models differ at seed 3"]
    assert not result.equal
    pulled = [entry | {"settings": entry["settings"] | {"pipeline": ASYNCHRONOUS}} for entry in changed]  # by chance
    assert both(tmp_path, [entry | {"settings": pulled[0]["settings"]} for entry in seeds()], pulled).differences == []


def test_what_was_asked_and_run_differently_is_told_and_no_difference(tmp_path: Path) -> None:
    slower = [entry | {"settings": entry["settings"] | {"k": 256}} for entry in seeds()]
    change = {"target": "bmv2", "machine": {"processor": "another", "cores": 2}, "git": {"commit": "f00", "changed": False}}
    result = both(tmp_path, seeds(), slower, versions={"python": "3.12.0"}, **change)
    assert result.context == [
        ("target", "embedded", "bmv2"),
        ("versions: python", "3.11.7", "3.12.0"),
        ("machine: processor", "a processor", "another"),
        ("git: commit", "0123456789abcdef0123", "f00"),
        ("no faults: k", "64", "256"),
    ]
    assert result.equal


def test_metrics_that_only_some_experiments_have(tmp_path: Path) -> None:
    few = [entry | {"metrics": {"duration": 1.0 + entry["seed"]}} for entry in seeds()]
    result = both(tmp_path, few, few)
    assert [f.metric.key for f in result.findings["no faults"]] == ["duration"]


def flat(text: str) -> str:
    """The text without the ends of its lines."""
    return " ".join(text.split())


def printed(a: Run, b: Run, every: bool = False) -> tuple[int, str]:
    console = Terminal(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    code = show_comparison(a, b, console, every)
    return code, console.export_text()


def test_what_is_printed_fits_80_columns_and_names_what_differs(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", [*seeds(), *seeds(name="[bold]1 % loss[/bold]", spread=0.01)], target="bmv2")
    b = make_run(tmp_path / "b", [*seeds(), *seeds(1.2345, name="[bold]1 % loss[/bold]")])
    code, text = printed(a, b)
    assert code == DIFFERENT
    wording = (
        "[bold]1 % loss[/bold]: differs in median TAT (p = 0.0078), step (p = 0.0078), ATE/s (p = 0.0078), duration (p = 0.0078)"
    )
    assert wording in flat(text)
    assert "no difference found in: no faults" in text
    assert "target bmv2 embedded" in flat(text)
    assert "confidence 95 % over all 4 comparisons together: sign test over pairs of equal seeds" in flat(text)
    assert "0.0078" in text.split("no difference found")[0].split("differs in")[0]  # in the table, too
    assert "TAT, ms 100.2 123.8 1.234 10 pairs 0.0078 yes" in flat(text)  # A, B and the ratio, to three digits
    low, high = found(compare(a, b), "tat_median", "[bold]1 % loss[/bold]").first[1:3]
    assert f"{1000 * low:.1f}–{1000 * high:.1f}" in text
    code, text = printed(a, a, every=True)
    assert code == EQUAL
    assert "differs in" not in text
    assert f"{1000 * low:.1f}–{1000 * high:.1f}" in text
    lines = [line for line in text.splitlines() if not line.startswith(("A: ", "B: "))]
    assert max(map(len, lines)) <= 80


def test_the_command_and_its_exit_codes(tmp_path: Path) -> None:
    a, b = (make_run(tmp_path / name, seeds(factor)).folder for name, factor in (("a", 1.0), ("b", 1.3)))
    assert inalab("compare", str(a), str(a)).returncode == 0
    done = inalab("compare", str(a), str(b))
    assert done.returncode == 3
    assert "no faults: differs in" in done.stdout
    done = inalab("compare", str(a), str(tmp_path))
    assert done.returncode == 1
    assert "is not the folder of a run" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("run.json", b"\xff\xfe\x00"), ("run.json", b"[1]"), ("trials.jsonl", b"[]\n"), ("trials.jsonl", b"{}\n"), ("trials.jsonl", b"x\n")],
)  # fmt: skip
def test_garbage_is_no_run(tmp_path: Path, name: str, content: bytes) -> None:
    run = make_run(tmp_path, seeds())
    (run.folder / name).write_bytes(content)
    with pytest.raises(ResultsError, match="is not the folder of a run"):
        load_run(run.folder)
