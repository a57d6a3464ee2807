"""Who is in a job whose members change: small cases by hand, and every order of what a few members may say."""

from __future__ import annotations

import itertools

import pytest

from inalab.hosts.messages import Halted
from inalab.testbed.trial.roster import MOST_VAIN, Generation, Roster, RosterError


def say(roster: Roster, **steps: int) -> None:
    """Members say how many steps' sums they have: m1=3."""
    for name, had in steps.items():
        roster.hear(Halted(int(name[1:]), roster.current.number, had, "it was halted"))


def test_nothing_changes_by_itself() -> None:
    roster = Roster.of(3)
    assert roster.next() is None and not roster.awaited() and roster.current == Generation(0, (0, 1, 2))


def test_the_others_go_on_from_what_most_of_them_have() -> None:
    roster = Roster.of(4)
    roster.lose(2, "worker 2 was killed")
    assert roster.awaited() == {0, 1, 3} and roster.next() is None
    say(roster, m0=4, m1=5)
    assert roster.awaited() == {3} and roster.next() is None
    say(roster, m3=4)
    assert roster.next() == Generation(1, (0, 1, 3), 5, source=1, behind=(0, 2), why="worker 2 was killed")
    assert not roster.halting and roster.next() is None


def test_a_newcomer_has_nothing_and_a_death_among_those_that_know_more_takes_a_step_back() -> None:
    roster = Roster.of(3)
    roster.lose(0, "worker 0 was killed")
    say(roster, m1=5, m2=4)
    roster.come(0)
    roster.lose(1, "worker 1 was killed")
    assert roster.next() == Generation(1, (0, 2), 4, source=1, newcomers=(0,), why="worker 0 was killed")


def test_a_newcomer_that_is_lost_before_it_is_in_is_not_waited_for() -> None:
    roster = Roster.of(2)
    roster.lose(0, "worker 0 was killed")
    roster.come(0)
    roster.lose(0, "worker 0 was killed again")
    say(roster, m1=1)
    assert roster.next() == Generation(1, (1,), 1, why="worker 0 was killed")


def test_what_is_said_of_an_earlier_generation_counts_no_more() -> None:
    roster = Roster.of(2)
    roster.change("a switch has restarted")
    say(roster, m0=1, m1=1)
    roster.next()
    roster.hear(Halted(0, 0, 1, "late"))
    assert not roster.halting and not roster.halted


def test_sums_that_differ_by_two_cannot_be() -> None:
    roster = Roster.of(2)
    roster.change("anything")
    say(roster, m0=1, m1=3)
    with pytest.raises(RosterError, match="worker 0 has the sums of 1 steps, and another one those of 3"):
        roster.next()


def test_generations_in_which_nothing_happens_end() -> None:
    roster = Roster.of(2)
    with pytest.raises(RosterError, match=f"{MOST_VAIN} generations have ended without a step, the last because it was halted"):
        for _ in range(MOST_VAIN + 1):
            say(roster, m0=0, m1=0)
            roster.next()


def test_whatever_the_order_of_a_death_and_of_what_members_say() -> None:
    """Three members have the sums of one step or two. Each says so, one of them dies, and worker 3 comes, in any order."""
    for had, dead in itertools.product(itertools.product((1, 2), repeat=3), range(3)):
        events = [*((rank, had[rank]) for rank in range(3)), ("dies", dead), ("comes", 3)]
        for order in itertools.permutations(events):
            roster, gone, made = Roster.of(3), False, []
            for what, value in order:
                if what == "dies":
                    roster.lose(int(value), "it died")
                    gone = True
                elif what == "comes":
                    roster.come(3)
                elif not (gone and what == dead) and not made:
                    roster.hear(Halted(int(what), 0, value, "it was halted"))
                if (generation := roster.next()) is not None:
                    made.append(generation)
                    break
            (generation,) = made
            living = [rank for rank in generation.members if rank != 3]
            assert generation.steps == max(had[rank] for rank in living)
            assert had[generation.members[generation.source]] == generation.steps
            assert [generation.members[place] for place in generation.behind] == [r for r in living if had[r] < generation.steps]
            assert [generation.members[place] for place in generation.newcomers] == [3] * (3 in generation.members)
            assert not gone or dead not in generation.members
