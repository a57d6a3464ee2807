"""The command `inalab network`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inalab.testbed.command.terminal import Terminal

PICTURES = (".svg", ".pdf", ".png")


def network(
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="topology, racks, workers (in each rack), loss, ...")
    ] = None,
    out: Annotated[Path, typer.Option(help="file to write; .svg, .pdf or .png")] = Path("network.svg"),
) -> None:
    """Draw the network that settings make: its links and rates, and where losses and stragglers act."""
    from inalab.testbed.draw.network import network_figure
    from inalab.testbed.draw.plots import saved
    from inalab.testbed.plan.effect import refuse_idle
    from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides

    given = parse_overrides(set_ or [], TrialSettings)
    settings = make_settings(TrialSettings, given)
    settings.check()
    refuse_idle(settings, given)
    if out.suffix not in PICTURES:
        raise SettingsError(f"{out} is no picture: give it a name that ends in .svg, .pdf or .png")
    out.write_bytes(saved("network", network_figure(settings), out.suffix.removeprefix(".")))
    Terminal().print(f"the network is drawn in {out}", soft_wrap=True)
