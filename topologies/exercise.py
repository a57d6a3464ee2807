"""An exercise of p4lang/tutorials, made from its topology.json: hosts, switches, and links with latency and bandwidth."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from inalab.switches import json_file
from inalab.switches.json_file import JsonFileError
from inalab.switches.runtime_json import RuntimeFile
from inalab.topologies.exercise_file import PORTS, SwitchFile, TopologyFile

LONGEST_NAME = 15  # of an interface, for Linux


class ExerciseError(Exception):
    """A file that makes no network; str() is one sentence."""


@dataclass(frozen=True)
class ExerciseHost:
    """`commands` run in it once the network is up, one after the other; `run` is what it does then, beside all others."""

    ip: str
    mac: str
    commands: list[str] = field(default_factory=list)
    run: str = ""


@dataclass(frozen=True)
class ExerciseSwitch:
    """`program` is the P4 source; `cpu_port` goes to a controller.

    `commands` and `runtime` fill its tables: the names of two files, and what they hold.
    """

    program: Path
    commands: tuple[str, list[str]] | None = None
    runtime: tuple[str, RuntimeFile] | None = None
    cpu_port: int | None = None


@dataclass(frozen=True)
class End:
    """An end of a link: a switch with the number of its port, or a host with the number of its interface, from 0 on."""

    node: str
    port: int
    of_host: bool = False

    def __str__(self) -> str:
        return self.node if self.of_host else f"{self.node}-p{self.port}"

    def interface(self) -> str:
        """What Mininet calls it."""
        return f"{self.node}-eth{self.port}"


@dataclass(frozen=True)
class ExerciseLink:
    """`latency` in microseconds, `bandwidth` in Mbit/s, None without a limit."""

    ends: tuple[End, End]
    latency: int = 0
    bandwidth: float | None = None


@dataclass(frozen=True)
class Exercise:
    """A network to boot. `notes` are sentences about what the file has and the embedded switch does not do."""

    hosts: dict[str, ExerciseHost]
    switches: dict[str, ExerciseSwitch]
    links: list[ExerciseLink]
    notes: list[str] = field(default_factory=list)


def read(path: Path, folder: Path, program: Path | None = None) -> Exercise:
    """The exercise in a topology.json. Files that it names lie below `folder`.

    A switch runs the source of its program, or of what its runtime file calls its bmv2_json: build/basic.json comes from basic.p4.
    Where neither is named, it runs the folder's only program.
    `program` stands in for the file of its name, such as solution/basic.p4 for basic.p4; where no switch runs one of that name, all
    run it. Raises ExerciseError.
    """
    try:
        file = json_file.read(TopologyFile, path)
        runtimes = {
            name: (its, json_file.read(RuntimeFile, folder / its, its))
            for name, one in file.switches.items()
            if (its := one.runtime_json) is not None
        }
    except JsonFileError as error:
        raise ExerciseError(str(error)) from None
    built = {
        name: one.program or (runtimes[name][1].bmv2_json if name in runtimes else None) for name, one in file.switches.items()
    }
    sources = {name: _source_of(one, folder) or _only_program(folder) for name, one in built.items()}
    if program is not None:
        all_ = program.name not in {source.name for source in sources.values() if source}
        sources = {name: program if all_ or (s and s.name == program.name) else s for name, s in sources.items()}
    try:
        switches = {name: _switch(name, one, folder, sources[name], runtimes.get(name)) for name, one in file.switches.items()}
        links = _links(file)
    except ExerciseError as error:
        raise ExerciseError(f"{path}: {error}") from None
    hosts = {name: ExerciseHost(one.ip, one.mac, one.commands, one.run) for name, one in file.hosts.items()}
    return Exercise(hosts, switches, links, _notes(file, list(runtimes.values())))


def _switch(
    name: str, one: SwitchFile, folder: Path, program: Path | None, runtime: tuple[str, RuntimeFile] | None
) -> ExerciseSwitch:
    if program is None or not os.path.isfile(program):
        found = ", ".join(path.name for path in sorted(folder.glob("*.p4")))
        choice = f"choose one of {found} with --program" if found else "this folder has no .p4 file, so give one with --program"
        what = "names no program" if program is None else f"runs {os.path.relpath(program, folder)}, which is not there"
        raise ExerciseError(f"switch {name} {what}: {choice}")
    commands = (one.cli_input, _lines(name, folder, one.cli_input)) if one.cli_input is not None else None
    return ExerciseSwitch(program, commands, runtime, one.cpu_port)


def _lines(switch: str, folder: Path, path: str) -> list[str]:
    try:
        return (folder / path).read_text().splitlines()
    except OSError as error:
        raise ExerciseError(f"switch {switch}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExerciseError(f"switch {switch}: {path} is not text") from None


def _only_program(folder: Path) -> Path | None:
    found = sorted(folder.glob("*.p4"))
    return found[0] if len(found) == 1 else None


def _source_of(built: str | None, folder: Path) -> Path | None:
    """The P4 program that a switch's is built from."""
    if built is None:
        return None
    path = Path(built)
    return folder / (path if path.suffix == ".p4" else f"{path.stem}.p4")


def _links(file: TopologyFile) -> list[ExerciseLink]:
    links: list[ExerciseLink] = []
    interfaces = Counter[str]()  # of each host
    taken = {End(name, one.cpu_port): "its cpu_port" for name, one in file.switches.items() if one.cpu_port is not None}
    for number, one in enumerate(file.links, 1):
        if one.first in file.hosts and one.second in file.hosts:
            raise ExerciseError(f"link {number} is between two hosts, {one.first} and {one.second}: put a switch between them")
        first, second = (_end(text, number, file, interfaces) for text in (one.first, one.second))
        for end in (first, second):
            if end in taken:
                raise ExerciseError(f"link {number}: {end} is taken by {taken[end]}: choose another port")
            taken[end] = f"link {number}"
            if len(end.interface()) > LONGEST_NAME:
                raise ExerciseError(
                    f"link {number}: the interface {end.interface()} has {len(end.interface())} characters, and Linux takes "
                    f"{LONGEST_NAME}: shorten the name {end.node} or choose a smaller port"
                )
        links.append(ExerciseLink((first, second), one.latency, one.bandwidth))
    if missing := [name for name in file.hosts if End(name, 0, True) not in taken]:
        raise ExerciseError(f'host {missing[0]} has no link: add one, such as ["{missing[0]}", "s1-p1"]')
    return links


def _end(text: str, number: int, file: TopologyFile, interfaces: Counter[str]) -> End:
    if text in file.hosts:
        interfaces[text] += 1
        return End(text, interfaces[text] - 1, True)
    name, _, port = text.rpartition("-p")
    if name in file.switches and re.fullmatch("[0-9]{1,3}", port) and int(port) < PORTS:
        return End(name, int(port))
    if text in file.switches:
        raise ExerciseError(f'link {number}: "{text}" needs a port, such as "{text}-p1"')
    if name in file.switches:
        raise ExerciseError(f'link {number}: "{text}" is not a port: those of {name} are {name}-p0 to {name}-p{PORTS - 1}')
    near = get_close_matches(name or text, [*file.hosts, *file.switches], 1)
    meant = f": did you mean {near[0]}?" if near else ""
    raise ExerciseError(f'link {number}: "{text}" is neither a host nor the port of a switch, such as s1-p1{meant}')


def _notes(file: TopologyFile, runtimes: list[tuple[str, RuntimeFile]]) -> list[str]:
    queues = [
        f"{name}: priority_queues has no effect, because a port of the embedded switch has one queue"
        for name, one in file.switches.items()
        if one.priority_queues is not None
    ]
    clones = [
        f"{name}: packet_length_bytes has no effect, because the embedded switch clones whole packets"
        for name, runtime in runtimes
        if any(session.packet_length_bytes for session in runtime.clone_session_entries)
    ]
    return queues + clones
