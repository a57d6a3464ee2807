"""Who is in a job whose members change: the protocol, without clock or connection.

A change begins when a member is lost, says that it cannot go on, or comes. All others are halted. Once each of them has said how
many steps' sums it has, the next generation begins with what most steps were had by any of them: no member is ahead of another by
more than one. Nobody who has not answered is in it. A change in the midst of a change is the same once more: members that were
halted say so again.

Whose process has ended is lost at once. Whose process hangs answers no halt, and is lost after a while (`overdue`). A slow one
answers: its process runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inalab.hosts.messages import NOTHING, Halted

MOST_VAIN = 3  # generations in a row that end before any of them has ended a step, without a change of members
MOST_ALIKE = 20  # likewise, that have ended steps, but begin again from the same checkpoint


class RosterError(Exception):
    """The job cannot go on; str() is a sentence."""


@dataclass(frozen=True)
class Generation:
    """Members by rank, and how many steps' sums they are to have. `source` has them, those `behind` lack the last, and `newcomers`
    all; these are by their places among the members."""

    number: int
    members: tuple[int, ...]
    steps: int = 0
    source: int = 0
    behind: tuple[int, ...] = ()
    newcomers: tuple[int, ...] = ()
    why: str = ""


@dataclass
class Roster:
    """The members of a job. `current` is the generation that is under way, or that was; `halting` is why it is no more."""

    current: Generation
    halting: str = ""
    halted: dict[int, Halted] = field(default_factory=dict)  # by rank, of the current generation
    living: set[int] = field(default_factory=set)
    coming: dict[int, int] = field(default_factory=dict)  # newcomers, which are in no generation yet, and their steps
    vain: int = 0
    alike: int = 0
    moved: bool = False  # a step has ended in the current generation

    @classmethod
    def of(cls, size: int) -> Roster:
        """All workers, which begin with the same model."""
        everyone = tuple(range(size))
        return cls(Generation(0, everyone), living=set(everyone))

    def lose(self, rank: int, why: str) -> None:
        """A member, or one that was to be, is there no more."""
        self.coming.pop(rank, None)
        self.halted.pop(rank, None)  # what it had, nobody can have from it any more
        if rank in self.living:
            self.living.discard(rank)
            self._halt(why)

    def come(self, rank: int, steps: int = NOTHING) -> None:
        """A worker of this rank waits to be a member. It may have the sums of some steps, from a checkpoint."""
        self.coming[rank] = steps
        self._halt(f"worker {rank} has come")

    def hear(self, said: Halted) -> None:
        """A member does nothing more in a generation."""
        if said.generation == self.current.number and said.rank in self.living:
            self.halted[said.rank] = said
            self._halt(said.text)

    def change(self, why: str) -> None:
        """Something else than the members is not as it was."""
        self._halt(why)

    def _halt(self, why: str) -> None:
        self.halting = self.halting or why

    def awaited(self) -> set[int]:
        """Members that have not said how far they are."""
        return self.living - set(self.halted) if self.halting else set()

    def next(self) -> Generation | None:
        """The next generation, once all who live have said how far they are. Raises RosterError where there is none."""
        if not self.halting or self.awaited():
            return None
        steps = {rank: said.steps for rank, said in self.halted.items()}
        most = max([*steps.values(), *self.coming.values()], default=NOTHING)
        if most == NOTHING:
            raise RosterError(f"no member is left that has the model: {self.halting}")
        if wrong := [rank for rank, had in steps.items() if had not in (NOTHING, most, most - 1)]:
            raise RosterError(f"worker {wrong[0]} has the sums of {steps[wrong[0]]} steps, and another one those of {most}")
        steps |= {rank: had for rank, had in self.coming.items() if had == most}
        members = tuple(sorted(self.living | self.coming.keys()))
        same = members == self.current.members and most == self.current.steps
        self.alike = self.alike + 1 if same else 0
        self.vain = self.vain + 1 if same and not self.moved else 0
        if self.alike >= MOST_ALIKE:
            raise RosterError(f"{self.alike} generations have begun again from step {most}, the last because {self.halting}")
        if self.vain >= MOST_VAIN:
            raise RosterError(f"{self.vain} generations have ended without a step, the last because {self.halting}")
        place = {rank: number for number, rank in enumerate(members)}
        having = [rank for rank in members if steps.get(rank) == most]
        self.current = Generation(
            self.current.number + 1,
            members,
            most,
            place[having[0]],
            tuple(place[rank] for rank in members if steps.get(rank) == most - 1 and most > 0),
            tuple(place[rank] for rank in members if steps.get(rank, NOTHING) == NOTHING),
            self.halting,
        )
        self.living, self.coming, self.halted, self.halting, self.moved = set(members), {}, {}, "", False
        return self.current
