"""The command `inalab launch`."""

from __future__ import annotations

from typing import Annotated

import typer


def launch(
    script: Annotated[list[str], typer.Argument(metavar="-- SCRIPT [ARGUMENTS]", help="a Python script, and its arguments")],
    scheme: Annotated[
        str,
        typer.Option(
            help='what init_process_group("ina") sums over: a name, as `inalab list` shows it, or a file such as ./mine.py'
        ),
    ] = "switchml",
    target: Annotated[str, typer.Option(help="what runs the network: embedded, bmv2, or virtual (virtual time)")] = "embedded",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="racks, workers (in each rack), host_rate, k, loss, ...")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="of losses and stragglers")] = 1,
    torchrun: Annotated[bool, typer.Option("--torchrun", help="start the script by torchrun on each host")] = False,
    torchft: Annotated[
        bool, typer.Option("--torchft", help="each worker is one of torchft's replica groups: the others go on when it dies")
    ] = False,
    check_sums: Annotated[
        bool, typer.Option("--check-sums", help="compare samples of the scheme's sums with what the workers gave")
    ] = False,
) -> None:
    """Run a PyTorch script on every host of a network, one process a host."""
    from inalab.hosts.training.pipeline import ASYNCHRONOUS
    from inalab.testbed import backends
    from inalab.testbed.plan.effect import refuse_idle
    from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, named_scheme, parse_overrides
    from inalab.testbed.trial.hosted import Runner
    from inalab.testbed.trial.launch import refuse_training, with_large_packets

    chosen = named_scheme(scheme)
    given = parse_overrides(set_ or [], TrialSettings)
    if "scheme" in given:
        raise SettingsError("the scheme of a launch is chosen by --scheme")
    backend = backends.find(target)
    if torchrun and torchft:
        raise SettingsError("torchrun and torchft each start the script in their own way: leave one of them out")
    if torchft and check_sums:
        raise SettingsError("sums of torchft's quorums are not sampled: leave --check-sums out")
    runner = Runner.TORCHRUN if torchrun else Runner.TORCHFT if torchft else Runner.ITSELF
    elastic = {"elastic": True} if torchft else {}
    settings = make_settings(TrialSettings, {**backend.usual} | given | {"scheme": chosen} | elastic)
    refuse_training(settings, runner)
    if not settings.of_scheme().sums:  # a script of Asynchronous (hosts.asynchronous)
        settings = settings.changed(pipeline=ASYNCHRONOUS)
    settings.check()
    refuse_idle(settings, given)
    settings = with_large_packets(settings, given, backend.largest_k)
    settings.check()
    backend.require()
    raise typer.Exit(backend.launch(settings, seed, script, runner, check_sums))
