"""What a topology.json of p4lang/tutorials holds, as its own run_exercise.py reads it, and a host's `run`, which is ours."""

from __future__ import annotations

import re
from ipaddress import IPv4Interface
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from inalab.switches.json_file import Part, refusal, shown, wrong

PORTS = 511  # 511 is v1model's port for packets to drop
LONGEST_LATENCY = 3600 * 1_000_000  # microseconds
HIGHEST_BANDWIDTH = 100_000  # Mbit/s
UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}

IP = 'an IPv4 address with the length of its prefix, such as "10.0.1.1/24"'
MAC = 'six bytes with colons between them, such as "08:00:00:00:01:11"'
LATENCY = 'a number of milliseconds, or text such as "5ms", an hour at most'

FOREIGN = {  # by a key of theirs
    "topology": "this is a file of P4-utils, not of p4lang/tutorials: boot it by python -m inalab.switches.embedded.p4utils p4run "
    "--config FILE",
    "targets": "this is a file of p4lang/p4app, not of p4lang/tutorials: boot its folder with p4app, by p4app run FOLDER",
}

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
PathText = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$")]


def _name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,9}", name):
        raise refusal(
            f"{shown(name)} is not a name for a host or switch: write a letter, then letters, digits or _, ten in all at most"
        )
    return name


def _ip(text: str) -> str:
    address, slash, _ = text.partition("/")
    try:
        given = IPv4Interface(text)
    except ValueError:
        raise wrong("ip", text, IP) from None
    if not slash:
        raise wrong("ip", text, f'the length of its prefix, too, such as "{address}/24"')
    if given.ip.is_multicast or given.ip.is_unspecified or given.ip.is_loopback:
        raise wrong("ip", text, f"an address that one host can have, such as {IP.partition('such as ')[2]}")
    if given.network.prefixlen < 31 and given.ip in (given.network.network_address, given.network.broadcast_address):
        which = "address of the network itself" if given.ip == given.network.network_address else "broadcast address"
        raise wrong("ip", text, f"another address of {given.network}, because this is the {which}")
    return str(given)


def _mac(text: str) -> str:
    colons = text.replace("-", ":")
    if not re.fullmatch("[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", colons):
        raise wrong("mac", text, MAC)
    if colons != text:
        raise wrong("mac", text, f'colons instead of hyphens, "{colons}"')
    if int(text[:2], 16) & 1:
        raise wrong(
            "mac", text, f'an address of one host, whose first byte is even, such as "{int(text[:2], 16) - 1:02x}{text[2:]}"'
        )
    if not int(text.replace(":", ""), 16):
        raise wrong("mac", text, f"an address that is not all zeros: {MAC}")
    return text


def _port(value: Any) -> Any:
    """A number, or as the tutorials have it, a number in a string."""
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,3}", value) else value


def _microseconds(latency: Any) -> int:
    """A latency as Mininet writes it, 5ms; a number without a unit is in milliseconds in JSON, and in microseconds in a string."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]+)?)(us|ms|s)?", latency) if isinstance(latency, str) else None
    if match:
        found = float(match[1]) * UNITS[match[2] or "us"]
    elif isinstance(latency, (int, float)) and not isinstance(latency, bool):
        found = latency * 1000
    else:
        raise wrong("latency", latency, LATENCY)
    if not 0 <= found <= LONGEST_LATENCY:
        raise wrong("latency", latency, LATENCY)
    return round(found)


class HostFile(Part):
    """A host. `commands` run in it once the network is up, one after the other; with --hosts, all hosts then `run` at once."""

    ip: Annotated[str, AfterValidator(_ip)] = Field(description=IP)
    mac: Annotated[str, AfterValidator(_mac)] = Field(description=MAC)
    commands: list[Text] = Field([], description='a list of commands, such as ["route add default gw 10.0.1.10 dev eth0"]')
    run: Text = Field("", description='a command, such as "./receive.py"')


class SwitchFile(Part):
    """A switch: its program, what fills its tables, and the port of a controller."""

    program: PathText | None = Field(None, description='the path of a program, such as "build/basic.json" or "basic.p4"')
    runtime_json: PathText | None = Field(None, description='the path of a file, such as "s1-runtime.json"')
    cli_input: PathText | None = Field(None, description='the path of a file of commands, such as "s1-commands.txt"')
    cpu_port: Annotated[int | None, BeforeValidator(_port)] = Field(
        None, ge=0, lt=PORTS, description=f"the number of a port from 0 to {PORTS - 1}"
    )
    priority_queues: Any = Field(None, description="a number")


class LinkFile(Part):
    """A list of two nodes; `latency` in microseconds, and `bandwidth` in Mbit/s, None without a limit."""

    first: str = Field(description='a host, or a switch\'s port such as "s1-p1"')
    second: str = Field(description='a host, or a switch\'s port such as "s1-p1"')
    latency: Annotated[int, BeforeValidator(_microseconds)] = Field(0, description=LATENCY)
    bandwidth: float | None = Field(
        None, gt=0, le=HIGHEST_BANDWIDTH, description=f"a number of Mbit/s, more than 0 and at most {HIGHEST_BANDWIDTH:,}"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, given: Any) -> Any:
        if not isinstance(given, list) or not 2 <= len(given) <= 4:
            raise refusal(f"{shown(given)} is not a link: write [NODE, NODE, LATENCY, BANDWIDTH], the last two if you want")
        return dict(zip(cls.model_fields, given, strict=False))


Name = Annotated[str, AfterValidator(_name)]


class TopologyFile(Part):
    """The whole file."""

    nouns: ClassVar[dict[str, str]] = {"hosts": "host", "switches": "switch", "links": "link"}

    hosts: dict[Name, HostFile] = Field(description='an object such as {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}}')
    switches: dict[Name, SwitchFile] = Field(description='an object such as {"s1": {"runtime_json": "s1-runtime.json"}}')
    links: list[LinkFile] = Field([], description='a list such as [["h1", "s1-p1"], ["s1-p2", "s2-p1", "5ms", 10]]')

    @model_validator(mode="before")
    @classmethod
    def _recognize(cls, given: Any) -> Any:
        for key, whose in FOREIGN.items():
            if isinstance(given, dict) and key in given and "hosts" not in given:
                raise refusal(whose)
        return given

    @model_validator(mode="after")
    def _compare(self) -> TopologyFile:
        if both := [name for name in self.hosts if name in self.switches]:
            raise refusal(f"{both[0]} is a host and a switch: rename one of them")
        owners: dict[Any, str] = {}
        for name, host in self.hosts.items():
            address = IPv4Interface(host.ip).ip
            if (other := owners.setdefault(address, name)) != name:
                raise refusal(f"hosts {other} and {name} have the same ip, {address}: give each an address of its own")
        return self
