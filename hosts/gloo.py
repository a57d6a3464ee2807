"""Failures of Gloo, and of the store where torch's processes meet, in one sentence: whom they are about, and what happened."""

from __future__ import annotations

import re

import torch.distributed as dist

from inalab.hosts.collective import node_name
from inalab.hosts.place import Place

SOURCE = re.compile(r"^\[\S*gloo\S*\.(?:cc|h):\d+\] ")  # Gloo's own file and line, before what it has to tell
PEER = re.compile(r"\[(?:::ffff:)?([\d.]+)\]:\d+")
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
WAITED = re.compile(r"[Tt]imed out waiting (\d+)ms")


def explain(error: BaseException, place: Place) -> str | None:
    """What happened, for the end of a sentence; None if the error is neither Gloo's nor the store's."""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, dist.DistStoreError | dist.DistNetworkError):
        return f"the store on {node_name(0, place.membership.size)}, where the workers meet, does not answer: {_first(text)}"
    if not isinstance(error, RuntimeError) or not SOURCE.match(text):
        return None
    if any(sign in text for sign in GONE):
        return f"{_peer(text, place)} has closed its connection"
    if waited := WAITED.search(text):
        return f"Gloo has waited {int(waited[1]) / 1000:g} s for another worker"
    return f"Gloo failed: {_first(text)}"


def _first(text: str) -> str:
    """The first sentence, without where in the sources it comes from."""
    return re.sub(r"^\[[^\]]*\] ", "", text).split(". ")[0].rstrip(".")


def _peer(text: str, place: Place) -> str:
    """The node that a connection led to, by its address on either network."""
    found = PEER.search(text)
    for addresses in (place.peers, place.control) if found else ():
        if found and found[1] in addresses:
            return node_name(addresses.index(found[1]), place.membership.size)
    return "another worker"
