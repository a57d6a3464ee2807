"""Action profiles: members, groups, and the one-shot action sets of table entries (P4Runtime 1.4, section 9.2).

A weight of n becomes n members with the same action, because BMv2 chooses among a group's members with equal probability.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from p4.v1 import p4runtime_pb2

from . import actions
from .errors import already_exists, not_found, unimplemented
from .pipeline import Pipeline, require

INSERT, MODIFY, DELETE = p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE
HEAVIEST = 1024  # members that one group may come to


@dataclass
class Group:
    """`handle` is the switch's handle of the group; `copies` are the extra members that weights need."""

    message: Any
    handle: int
    copies: list[int] = field(default_factory=list)


@dataclass
class Member:
    message: Any
    handle: int


class Profiles:
    """Members and groups by the client's numbers."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.members: dict[tuple[int, int], Member] = {}
        self.groups: dict[tuple[int, int], Group] = {}

    # --- members

    def write_member(self, kind: int, message: Any) -> None:
        profile = self.pipeline.get("action_profiles", message.action_profile_id)
        key, name = (message.action_profile_id, message.member_id), profile.preamble.name
        require(message.member_id != 0, "a member's id is not 0")
        if kind == INSERT and key in self.members:
            raise already_exists(f"{name} has a member {message.member_id}")
        if kind != INSERT and key not in self.members:
            raise not_found(f"{name} has no member {message.member_id}")
        if kind == DELETE:
            self.pipeline.run("act_prof_delete_member", name, self.members[key].handle)
            del self.members[key]
            return
        words = self._words(profile, message.action)
        if kind == INSERT:
            self.members[key] = Member(message, self.pipeline.handle("act_prof_create_member", name, *words))
            return
        self.pipeline.run("act_prof_modify_member", name, words[0], self.members[key].handle, *words[1:])
        self.members[key].message = message
        for (profile_id, _), group in self.groups.items():  # their copies are of this action, too
            if profile_id == key[0] and group.copies and any(m.member_id == message.member_id for m in group.message.members):
                self._fill(profile, group, group.message)

    def member_handle(self, profile: Any, member_id: int) -> int:
        found = self.members.get((profile.preamble.id, member_id))
        if found is None:
            raise not_found(f"{profile.preamble.name} has no member {member_id}")
        return found.handle

    # --- groups

    def write_group(self, kind: int, message: Any) -> None:
        profile = self.pipeline.get("action_profiles", message.action_profile_id)
        key, name = (message.action_profile_id, message.group_id), profile.preamble.name
        require(profile.with_selector, f"{name} is no action_selector, and has no groups")
        require(message.group_id != 0, "a group's id is not 0")
        if kind == INSERT and key in self.groups:
            raise already_exists(f"{name} has a group {message.group_id}")
        if kind != INSERT and key not in self.groups:
            raise not_found(f"{name} has no group {message.group_id}")
        if kind == DELETE:
            group = self.groups[key]
            self.pipeline.run("act_prof_delete_group", name, group.handle)
            del self.groups[key]
            self._forget(name, group.copies)
            return
        self._check(profile, message.members, message.max_size)
        if kind == INSERT:
            self.groups[key] = Group(p4runtime_pb2.ActionProfileGroup(), self.pipeline.handle("act_prof_create_group", name))
        self._fill(profile, self.groups[key], message)

    def _check(self, profile: Any, members: Any, most: int) -> None:
        for member in members:
            require(member.weight > 0, "a weight is above 0")
            if member.WhichOneof("watch_kind"):
                raise unimplemented("ports are not watched: leave watch_port out")
            self.member_handle(profile, member.member_id)
        require(len({m.member_id for m in members}) == len(members), "a group has a member once; give it a weight")
        total = sum(member.weight for member in members)
        require(total <= (most or HEAVIEST), f"the weights come to {total}, above the group's {most or HEAVIEST}")

    def _fill(self, profile: Any, group: Group, message: Any) -> None:
        """Make a group's members those of a message: new ones first, so that it is not empty meanwhile."""
        name = profile.preamble.name
        old = [self.member_handle(profile, m.member_id) for m in group.message.members]
        wanted = [self.member_handle(profile, m.member_id) for m in message.members]
        weights = [(self.members[profile.preamble.id, m.member_id].message.action, m.weight) for m in message.members]
        copies = [
            self.pipeline.handle("act_prof_create_member", name, *self._words(profile, action))
            for action, weight in weights for _ in range(weight - 1)
        ]  # fmt: skip
        for handle in [*(h for h in wanted if h not in old), *copies]:
            self.pipeline.run("act_prof_add_member_to_group", name, handle, group.handle)
        for handle in [*(h for h in old if h not in wanted), *group.copies]:
            self.pipeline.run("act_prof_remove_member_from_group", name, handle, group.handle)
        self._forget(name, group.copies)
        group.message, group.copies = message, copies

    def _forget(self, name: str, handles: list[int]) -> None:
        for handle in handles:
            self.pipeline.run("act_prof_delete_member", name, handle)

    def group_handle(self, profile: Any, group_id: int) -> int:
        found = self.groups.get((profile.preamble.id, group_id))
        if found is None:
            raise not_found(f"{profile.preamble.name} has no group {group_id}")
        return found.handle

    # --- one-shot programming

    def create_set(self, profile: Any, given: Any) -> Group:
        """A group of members made for one entry."""
        require(profile.with_selector, f"{profile.preamble.name} is no action_selector, and has no action sets")
        require(len(given.action_profile_actions) > 0, "an action set has actions")
        weights = [one.weight for one in given.action_profile_actions]
        require(min(weights) > 0 and sum(weights) <= HEAVIEST, f"weights are above 0, and come to at most {HEAVIEST}")
        if any(one.WhichOneof("watch_kind") for one in given.action_profile_actions):
            raise unimplemented("ports are not watched: leave watch_port out")
        name = profile.preamble.name
        commands = [self._words(profile, one.action) for one in given.action_profile_actions for _ in range(one.weight)]
        made = Group(given, self.pipeline.handle("act_prof_create_group", name))
        for words in commands:
            made.copies.append(self.pipeline.handle("act_prof_create_member", name, *words))
            self.pipeline.run("act_prof_add_member_to_group", name, made.copies[-1], made.handle)
        return made

    def _words(self, profile: Any, action: Any) -> list[str]:
        """An action of a member, in the words of commands. Raises P4RuntimeError if no table of the profile lists it."""
        tables = [table for table in self.pipeline.by_id["tables"].values() if table.implementation_id == profile.preamble.id]
        listed = any(ref.id == action.action_id for table in tables for ref in table.action_refs)
        require(listed, f"no table of {profile.preamble.name} has an action with id {action.action_id}")
        return actions.words_of(self.pipeline, action)

    def delete_set(self, profile: Any, group: Group) -> None:
        self.pipeline.run("act_prof_delete_group", profile.preamble.name, group.handle)
        self._forget(profile.preamble.name, group.copies)

    # --- what there is

    def read_members(self, wanted: Any) -> list[Any]:
        return _matching(self.members, wanted.action_profile_id, wanted.member_id)

    def read_groups(self, wanted: Any) -> list[Any]:
        return _matching(self.groups, wanted.action_profile_id, wanted.group_id)


def _matching(known: dict[tuple[int, int], Any], profile_id: int, number: int) -> list[Any]:
    """The messages of a profile (0: of all) with a number (0: with any)."""
    return [one.message for (p, n), one in known.items() if profile_id in (0, p) and number in (0, n)]
