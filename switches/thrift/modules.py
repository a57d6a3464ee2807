"""The modules that BMv2 installs for its Thrift clients, for P4-utils where there is no BMv2."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from .binding import TYPES, client

SERVICES = {  # where clients find each: package, module, and the service's name
    "bm_runtime.standard": ("Standard", "standard"),
    "bm_runtime.simple_pre": ("SimplePre", "simple_pre"),
    "bm_runtime.simple_pre_lag": ("SimplePreLAG", "simple_pre_lag"),
    "sswitch_runtime": ("SimpleSwitch", "simple_switch"),
}


def thrift_connect(thrift_ip: str, thrift_port: int, services: list[tuple[str | None, Any]]) -> list[Any]:
    """Clients of services over one connection; None for what has no name. Ends the program where nobody listens."""
    transport = TBufferedTransport(TSocket(thrift_ip, thrift_port))
    protocol = TBinaryProtocol(transport)
    try:
        transport.open()
    except TTransportException:
        sys.exit(f"Could not connect to thrift client on port {thrift_port}")
    return [None if name is None else class_(TMultiplexedProtocol(protocol, name)) for name, class_ in services]


def provide() -> None:
    """Put the modules where they are imported from, unless BMv2 has installed them."""
    if importlib.util.find_spec("bm_runtime") or importlib.util.find_spec("bmpy_utils"):
        return
    _module("bmpy_utils", thrift_connect=thrift_connect)
    _module("bm_runtime")
    for package, (name, service) in SERVICES.items():
        _module(f"{package}.ttypes", **TYPES)
        made = _module(f"{package}.{name}", **TYPES, Client=client(service))
        _module(package, **{name: made})


def _module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(contents, __path__=[], __spec__=importlib.machinery.ModuleSpec(name, None, is_package=True))
    sys.modules[name] = made
    return made
