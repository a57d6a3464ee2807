"""What a launched script's collectives used, as sentences, and whether its sums were sums."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import NamedTuple

from inalab.hosts.tally import Tally
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.sampled import Sampled, compared


def summary(
    tallies: list[Tally], settings: TrialSettings, carried: list[dict[str, int]], took: float, busy: str = "",
    spent: str = ", its imports included",
) -> list[str]:  # fmt: skip
    """What a script's collectives used, as sentences; calls and bytes are a worker's, packets all workers'.

    `carried` are the bytes "up" and "down" of each worker's link: whatever the script sent, also where no tally noted it. The
    script `took` seconds, `spent` as that says, and `busy` says of what the machine had too little.
    Nothing where no worker left a tally, because its script did not come to the interpreter's end.
    """
    if not tallies:
        return []
    scheme, whole, sentences = settings.of_scheme(), Tally(), []
    for tally in tallies:
        whole.add(tally)
    n = len(tallies)
    if whole.sums:
        resent = f"; {whole.retransmissions:,} of all workers' {whole.sent:,} packets were retransmitted" if whole.sent else ""
        calls, size = _counted(whole.sums // n, "all-reduce"), _megabytes(whole.sum_bytes / n)
        sentences.append(f"{scheme.name} summed {calls} of each worker, {size} in all; {_median(whole.seconds)}{resent}")
    if whole.copies:
        calls = _counted(whole.copies // n, "all-gather or broadcast", "all-gathers and broadcasts")
        size = _megabytes(whole.copy_bytes / n)
        sentences.append(f"{scheme.name} carried {calls} of each worker, {size} in all; {_median(whole.copy_seconds, 'call')}")
    if whole.gloo_calls:
        calls, size = _counted(whole.gloo_calls // n, "call"), _megabytes(whole.gloo_bytes / n)
        sentences.append(
            f"Gloo carried {calls} of each worker, {size} in all" + "; " * bool(whole.gloo_seconds) + _median(whole.gloo_seconds)
        )
    up, down = (_megabytes(statistics.mean(link[way] for link in carried)) for way in ("up", "down"))
    sentences.append(f"a worker's data link carried {up} up and {down} down on average, headers included")
    sentences.append(f"the script took {took:.1f} s{spent}" + (f"; {busy}" if busy else ""))
    if not whole.sums and not whole.copies and not scheme.native:
        sentences.append(
            f"nothing was summed by {scheme.name}: all-reduces by SUM use it after "
            'init_process_group("ina"), see docs/how-to/torch.md'
        )
    paced = settings.beyond_default(("compute_ms", "straggler"))
    if paced and not whole.paced:
        lacking = "the script has no block of inalab.hosts.training.pace, see docs/how-to/torch.md"
        sentences.append(f"{' and '.join(paced)} had no effect: {lacking}")
    if whole.late:
        sentences.append(f"{whole.late} of {whole.paced} steps computed for longer than their virtual time: raise compute_ms")
    return sentences


class Checked(NamedTuple):
    """What comparing a script's sums has found, and whether one is wrong."""

    sentence: str
    wrong: bool


def checked_sums(tallies: dict[int, Tally], settings: TrialSettings, size: int | None = None) -> Checked:
    """Compare what the workers, by rank, have sampled of their sums with what they gave. `size`: of how many, if not all."""
    scheme, size = settings.of_scheme(), size or settings.plan().topology.size
    sampled = [Sampled(number, rank, sample) for rank, tally in tallies.items() for number, sample in tally.samples]
    workers_of = Counter(one.number for one in sampled)
    untold = sum(number < size for number in workers_of.values())
    found = compared(sampled, size, scheme, settings.scheme_settings(), "sum")
    if found.wrong:
        return Checked(f"a sum is wrong: {found.wrong}", True)
    if not sampled:
        return Checked(f"no sum was checked: none went over {scheme.name} to its end", False)
    if not found.sums:
        return Checked(f"no sum was checked: of those that were drawn {scheme.name} states nothing, or not all workers tell", False)
    elements, sums = _counted(found.elements, "element"), _counted(found.sums, "sum")
    left = f"; {_counted(untold, 'sum')} left out, of which not all workers tell" if untold else ""
    return Checked(f"{elements} of {sums} checked: as exact as {scheme.name} states{left}", False)


def _median(seconds: list[float], what: str = "all-reduce") -> str:
    """Of collectives, from the call to the end; empty where there were none."""
    if not seconds:
        return ""
    median = 1000 * statistics.median(seconds)
    return f"median {what} {median:,.{0 if median >= 100 else 1}f} ms"


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
