"""The topology.json of an exercise of p4lang/tutorials: hosts, switches, and links with latency and bandwidth."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}


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
    """`program` is the P4 source; `runtime` and `commands` are files that fill its tables; `cpu_port` goes to a controller."""

    program: Path
    runtime: Path | None = None
    commands: Path | None = None
    cpu_port: int | None = None


@dataclass(frozen=True)
class End:
    """An end of a link: a host, or a switch with the number of its port."""

    node: str
    port: int | None = None


@dataclass(frozen=True)
class ExerciseLink:
    """`latency` in microseconds, `bandwidth` in Mbit/s, None without a limit."""

    ends: tuple[End, End]
    latency: int = 0
    bandwidth: float | None = None


@dataclass(frozen=True)
class Exercise:
    """A network to boot."""

    hosts: dict[str, ExerciseHost]
    switches: dict[str, ExerciseSwitch]
    links: list[ExerciseLink]


def read(path: Path, folder: Path, program: Path | None = None) -> Exercise:
    """The exercise in a topology.json. Files that it names lie below `folder`.

    A switch runs the source of its program, or of what its runtime file calls its bmv2_json: build/basic.json comes from basic.p4.
    Where neither is named, it runs the folder's only program.
    `program` stands in for the file of its name, such as solution/basic.p4 for basic.p4; where no switch runs one of that name, all
    run it. Raises ExerciseError.
    """
    document = read_json(path)
    hosts = {name: _host(name, one) for name, one in _objects(document, "hosts", path).items()}
    described = _objects(document, "switches", path)
    sources = {name: _source_of(one, folder) or _only_program(folder) for name, one in described.items()}
    if program is not None:
        all_ = program.name not in {source.name for source in sources.values() if source}
        sources = {name: program if all_ or (s and s.name == program.name) else s for name, s in sources.items()}
    switches = {name: _switch(name, one, folder, sources[name]) for name, one in described.items()}
    links = [_link(one, hosts, switches) for one in document.get("links") or []]
    taken: set[End] = set()
    for end in (end for link in links for end in link.ends):
        if end in taken:
            raise ExerciseError(f"two links end at {end.node}{'' if end.port is None else f'-p{end.port}'}")
        taken.add(end)
    if missing := [name for name in hosts if End(name) not in taken]:
        raise ExerciseError(f"host {missing[0]} has no link")
    return Exercise(hosts, switches, links)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ExerciseError."""
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise ExerciseError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ExerciseError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ExerciseError(f"{path} must hold an object")
    return found


def _objects(document: dict[str, Any], key: str, path: Path) -> dict[str, dict[str, Any]]:
    found = document.get(key)
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise ExerciseError(f"{path} needs {key!r}, an object of objects")
    for name in found:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,8}", name):
            raise ExerciseError(f"{name!r} is no name for a host or switch: letters and digits, at most nine")
    return found


def _host(name: str, one: dict[str, Any]) -> ExerciseHost:
    if not isinstance(one.get("ip"), str) or not isinstance(one.get("mac"), str):
        raise ExerciseError(f"host {name} needs 'ip' and 'mac'")
    return ExerciseHost(one["ip"], one["mac"], [str(line) for line in one.get("commands", [])], str(one.get("run", "")))


def _switch(name: str, one: dict[str, Any], folder: Path, program: Path | None) -> ExerciseSwitch:
    if program is None:
        raise ExerciseError(f"switch {name} names no program: give one with --program")
    runtime = folder / str(one["runtime_json"]) if "runtime_json" in one else None
    commands = folder / str(one["cli_input"]) if "cli_input" in one else None
    cpu_port = one.get("cpu_port")
    if cpu_port is not None and not (str(cpu_port).isdigit() and int(cpu_port) < 511):
        raise ExerciseError(f"switch {name}: {cpu_port!r} is no port for a controller")
    return ExerciseSwitch(program, runtime, commands, None if cpu_port is None else int(cpu_port))


def _only_program(folder: Path) -> Path | None:
    found = sorted(folder.glob("*.p4"))
    return found[0] if len(found) == 1 else None


def _source_of(one: dict[str, Any], folder: Path) -> Path | None:
    """The P4 program that a switch's is built from."""
    built = one.get("program")
    if built is None and "runtime_json" in one:
        built = read_json(folder / str(one["runtime_json"])).get("bmv2_json")
    if not isinstance(built, str):
        return None
    path = Path(built)
    return folder / (path if path.suffix == ".p4" else f"{path.stem}.p4")


def _link(one: Any, hosts: dict[str, ExerciseHost], switches: dict[str, ExerciseSwitch]) -> ExerciseLink:
    if not isinstance(one, list) or not 2 <= len(one) <= 4:
        raise ExerciseError(f"a link is [NODE, NODE, LATENCY, BANDWIDTH], the last two optional; this is {one!r}")
    ends = (_end(str(one[0]), hosts, switches), _end(str(one[1]), hosts, switches))
    if ends[0].port is None and ends[1].port is None:
        raise ExerciseError(f"a link between two hosts: {one!r}")
    bandwidth = one[3] if len(one) > 3 else None
    if bandwidth is not None and (not isinstance(bandwidth, (int, float)) or not 0 < bandwidth <= 100_000):
        raise ExerciseError(f"{bandwidth!r} is no bandwidth in Mbit/s")
    return ExerciseLink(ends, _microseconds(one[2]) if len(one) > 2 else 0, bandwidth)


def _end(text: str, hosts: dict[str, ExerciseHost], switches: dict[str, ExerciseSwitch]) -> End:
    if text in hosts:
        return End(text)
    name, _, port = text.partition("-p")
    if name not in switches or not port.isdigit() or not 0 <= int(port) < 511:
        raise ExerciseError(f"{text!r} is neither a host nor a switch's port, such as s1-p1")
    return End(name, int(port))


def _microseconds(latency: Any) -> int:
    """A latency as Mininet writes it, 5ms; a number without a unit is in milliseconds in JSON, and in microseconds in a string."""
    if isinstance(latency, (int, float)) and latency >= 0:
        return round(latency * 1000)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)?", str(latency))
    if not match:
        raise ExerciseError(f"{latency!r} is no latency, such as 5ms")
    return round(float(match[1]) * UNITS[match[2] or "us"])
