"""The command `inalab`: run, list, report, index, compare, network, doctor, dissector, launch, p4run, export-csv, …"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inalab.switches.cache import cache_directory
from inalab.testbed.command import campaign, drawing, lab, launching
from inalab.testbed.command.terminal import Terminal

if TYPE_CHECKING:
    from inalab.testbed.campaign.scheduler import Scheduler

application = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="In-network aggregation lab."
)
application.add_typer(lab.application, name="lab")
application.add_typer(campaign.application, name="campaign")
console = Terminal()


@application.command()
def run(
    experiment: Annotated[str, typer.Argument(help="its name, as `inalab list` shows it, a file such as ./mine.py, or all")],
    target: Annotated[
        str | None,
        typer.Option(
            help="what runs the trials: embedded or bmv2, on networks; virtual, in virtual time; or simulated, which computes them",
            show_default="embedded",
        ),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="what sums: a name, or a file such as ./mine.py; compared with others where they are")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a setting that `inalab list EXPERIMENT` shows; may be repeated"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="of model, batches, losses and stragglers")] = 1,
    results: Annotated[Path, typer.Option(help="folder that runs are kept in")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="fewer points and seeds: under a minute")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the newest run of the same words, where it stopped")] = False,
    on: campaign.On = None,
    keys: campaign.KeysFolder = None,
    no_tls: campaign.NoTLS = False,
    capture: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK[,LINK...]",
            help="write the packets of these links to pcapng files: a link such as h0-tor0, a host or a switch for all of its "
            "links, or all; may be repeated",
        ),
    ] = None,
) -> None:
    """Run an experiment, or all, and write results, plots and report."""
    from inalab.testbed import backends
    from inalab.testbed.backends.backend import check
    from inalab.testbed.command.interruption import INTERRUPTED
    from inalab.testbed.command.request import Request, understood
    from inalab.testbed.command.runner import run_experiment
    from inalab.testbed.plan import captures
    from inalab.testbed.plan import experiment as registry
    from inalab.testbed.plan.effect import checked_plan
    from inalab.testbed.plan.settings import SettingsError, named_scheme

    if on is not None:
        if capture or experiment == "all":
            raise SettingsError("--on takes one experiment, and no --capture: a campaign's file can name several")
        scheduler = campaign.found(on, keys, no_tls)
        raise typer.Exit(_on_machines(scheduler, experiment, target or "", scheme, list(set_ or []), seed, results, quick))
    chosen_scheme = scheme and named_scheme(scheme)
    links = captures.parse(capture or [])
    plans = []
    for name in registry.names() if experiment == "all" else [experiment]:
        own = experiment == "all" and registry.has_target(name)
        request = Request(name, "" if own else target or "", seed, list(set_ or []), quick, resume, tuple(links))
        request, chosen, settings = understood(request, chosen_scheme, strict=experiment != "all")
        if experiment == "all":
            backend = backends.find(request.target)
            try:
                if not target:  # on a machine without namespaces some run in virtual time, and others cannot
                    backend.require()
                check(backend, checked_plan(chosen, settings, seed))
            except SettingsError as error:
                console.print(f"{name} is left out: {error}", soft_wrap=True)
                continue
        if links:
            captures.refuse_unknown(links, chosen.trials(settings, seed))
        plans.append((request, chosen, settings))
    code = 0
    for request, chosen, settings in plans:
        ended, _ = run_experiment(request, chosen, settings, results, console)
        if ended == INTERRUPTED:
            raise typer.Exit(INTERRUPTED)
        code = code or ended
    raise typer.Exit(code)


def _on_machines(
    on: Scheduler, experiment: str, target: str, scheme: str | None, overrides: list[str], seed: int, results: Path, quick: bool
) -> int:
    """Run an experiment as a campaign of its own name; the exit code."""
    from inalab.testbed.campaign.file import RunWords
    from inalab.testbed.command.campaigner import conduct
    from inalab.testbed.plan.experiment import short

    words = RunWords(experiment=experiment, target=target, scheme=scheme, set=tuple(overrides), seed=seed, quick=quick)
    return conduct(short(experiment), [words], on, results, Terminal(soft_wrap=True))


@application.command()
def dissector(
    out: Annotated[Path, typer.Option(help="file to write")] = Path("inalab.lua"),
    scheme: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="a scheme of your own whose packets it is to know; may be repeated")
    ] = None,
) -> None:
    """Write a Wireshark dissector, in Lua, for the packets of all schemes that have a P4 program."""
    from inalab.testbed.dissector import write
    from inalab.testbed.plan.settings import named_scheme
    from inalab.testbed.record.runs import ResultsError

    for name in scheme or []:
        named_scheme(name)
    try:
        protocols = write(out)
    except OSError as error:
        raise ResultsError(f"{out} cannot be written: {error.strerror}") from None
    ports = ", ".join(f"{one.title} (UDP port {' and '.join(map(str, one.ports))})" for one in protocols)
    console.print(f"dissector of {ports}: wireshark -X lua_script:{shlex.quote(str(out))}", soft_wrap=True)


@application.command("list")
def list_(name: Annotated[str | None, typer.Argument(help="an experiment or a scheme, to see its settings")] = None) -> None:
    """Show the experiments and the schemes, or the settings of one of them."""
    from inalab.testbed.command.listing import show_all, show_settings

    if name is None:
        show_all(console)
    else:
        show_settings(console, name)


application.command()(launching.launch)


@application.command("export-p4app")
def export_p4app(
    topology: Annotated[str, typer.Argument(help="rack, racks, or RACKSxWORKERS such as 3x2")],
    target: Annotated[str, typer.Option(help="what P4-utils is to run: bmv2 or embedded")] = "bmv2",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="host_rate, slots, k, loss, ...")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="of losses")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder to write; default: p4app-TOPOLOGY")] = None,
) -> None:
    """Write a topology for P4-utils: p4app.json, the program, and a commands file for each switch."""
    from inalab.testbed import backends
    from inalab.testbed.plan.effect import refuse_idle
    from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides
    from inalab.testbed.trial.configuration import commands_for
    from inalab.topologies.p4app import export, named

    overrides = parse_overrides(set_ or [], TrialSettings)
    if taken := {"racks", "workers"} & set(overrides):
        raise SettingsError(f"{' and '.join(sorted(taken))} are the topology's: name it RACKSxWORKERS")
    shape = named(topology)
    size = {"racks": str(shape.racks), "workers": str(shape.workers)}
    settings = make_settings(TrialSettings, {**backends.with_switches(target).usual} | overrides | size)
    settings.check()
    backends.with_switches(target).refuse(settings)
    refuse_idle(settings, overrides)
    plan = settings.plan()
    commands = commands_for(settings, plan, seed)
    program = settings.running().program
    path = export(plan, commands, program, {"K": str(settings.k)}, target, out or Path(f"p4app-{topology}"))
    console.print(f"boot it with: sudo p4run --config {shlex.quote(str(path))}", soft_wrap=True)


application.command()(drawing.network)


@application.command()
def p4run(
    topology: Annotated[Path, typer.Argument(metavar="TOPOLOGY.json", help="an exercise's, as p4lang/tutorials has them")],
    program: Annotated[
        Path | None,
        typer.Option(help="runs instead of the exercise's program of that name, e. g. solution/basic.p4; or on all switches"),
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option("--command", "-c", help="run this at Mininet's prompt, and end; may be repeated")
    ] = None,
    hosts: Annotated[
        bool, typer.Option("--hosts", help="let all hosts do what the exercise says that they `run`, and end")
    ] = False,
    p4runtime: Annotated[bool, typer.Option("--p4runtime", help="serve P4Runtime clients, from port 50051 on")] = False,
    thrift: Annotated[bool, typer.Option("--thrift", help="serve simple_switch_CLI and its like, from port 9090 on")] = False,
    logs: Annotated[Path, typer.Option(help="folder of the switches' logs")] = Path("logs"),
) -> None:
    """Boot an exercise of p4lang/tutorials on the embedded switch. Run it in the exercise's folder."""
    from inalab.testbed.command.p4run import p4run as boot
    from inalab.topologies.exercise import ExerciseError, read

    exercise = read(topology, Path.cwd(), program)
    if hosts and (command or not any(host.run for host in exercise.hosts.values())):
        raise ExerciseError("--hosts needs hosts with a 'run' in the topology, and no --command")
    raise typer.Exit(boot(exercise, Path.cwd(), logs, None if hosts else command or [], p4runtime, thrift, console))


@application.command()
def watch(
    seconds: Annotated[float, typer.Option(min=0.1, help="between two looks")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="show it once, and end")] = False,
    pace: Annotated[
        float | None,
        typer.Option(min=0, help="pause a switch, and let it take a packet so many seconds after the other; 0: at each Enter"),
    ] = None,
    switch: Annotated[str | None, typer.Option(help="which one --pace pauses; default: the first")] = None,
    scheme: Annotated[str | None, typer.Option(help="the file of the scheme that the trial runs, where it is one of yours")] = None,
) -> None:
    """Show what the switches of a trial that runs in another terminal hold, drop and wait for. Ctrl-C ends it.

    It reads the embedded switches of the newest trial of yours while packets flow, which takes them some time: do not watch
    what you measure.
    """
    from inalab.testbed.command.watch import newest
    from inalab.testbed.command.watch import watch as look
    from inalab.testbed.plan.settings import named_scheme

    if scheme:
        named_scheme(scheme)
    if pace is None:
        raise typer.Exit(look(Terminal(), seconds, once))
    from inalab.testbed.command.stepping import step_through

    raise typer.Exit(step_through(Terminal(soft_wrap=True), newest(), switch, pace))


@application.command()
def simulate(
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="a trial's setting, such as racks=32; may be repeated"),
    ] = None,
    elements: Annotated[int, typer.Option(min=1, help="that are summed, where no workload is set")] = 6_250_000,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="of losses and stragglers")] = 1,
    validate: Annotated[bool, typer.Option("--validate", help="compare with what was measured instead")] = False,
    write: Annotated[Path | None, typer.Option(help="with --validate: the page to write, too")] = None,
    calibrate: Annotated[
        Path | None, typer.Option(metavar="RUN", help="fit the costs on a run of experiment validation, and validate")
    ] = None,
) -> None:
    """Compute how long a trial's sums take, without running a network (docs/explanation/simulator.md)."""
    from inalab.testbed.command import simulate as command
    from inalab.testbed.plan.effect import refuse_idle
    from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides, refuse_others

    if write is not None and not validate:
        raise SettingsError("--write is of --validate: give both")
    if calibrate is not None:
        raise typer.Exit(command.calibrate(calibrate, console))
    if validate:
        raise typer.Exit(command.validate(write, console))
    overrides = parse_overrides(list(set_ or []), TrialSettings)
    settings = make_settings(TrialSettings, {"workload": f"tensor-{elements}", "steps": 1} | overrides)
    refuse_others(settings, {job.scheme for job in settings.each()})
    refuse_idle(settings, overrides)
    raise typer.Exit(command.show(settings, seed, console))


@application.command()
def doctor() -> None:
    """Tell what this machine has and lacks, what that means and how to get it."""
    from inalab.testbed.command.doctor import examine

    raise typer.Exit(examine(console))


@application.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a run: results/EXPERIMENT/RUN")],
    experiment: Annotated[str | None, typer.Option(metavar="FILE", help="the experiment's file, where it is one's own")] = None,
    scheme: Annotated[list[str] | None, typer.Option(metavar="FILE", help="of a scheme of one's own; may be repeated")] = None,
) -> None:
    """Draw a run's plots and write its report again. A run is data: no code that it names is run."""
    from inalab.testbed.command.again import report_again

    raise typer.Exit(int(not report_again(folder, experiment, scheme or [], console)))


@application.command("export-csv")
def export_csv(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a run: results/EXPERIMENT/RUN")],
    out: Annotated[Path | None, typer.Option(help="file to write; default: trials.csv in the run's folder")] = None,
) -> None:
    """Write a run's trials as comma-separated values, one line per trial; docs/reference/results.md has the columns."""
    from inalab.testbed.record.runs import ResultsError, load_run, write_whole
    from inalab.testbed.record.table import write_csv

    path = out or folder / "trials.csv"
    loaded, text = load_run(folder), io.StringIO(newline="")
    write_csv(loaded, text)
    try:
        if out is None:
            write_whole(path, text.getvalue())
        else:
            path.write_text(text.getvalue(), encoding="utf-8", newline="")
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from None
    console.print(f"{len(loaded.trials)} trials: {path}", soft_wrap=True)


@application.command()
def index(results: Annotated[Path, typer.Option(help="folder that runs are kept in")] = Path("results")) -> None:
    """Write index.html over all runs of a results folder."""
    from inalab.testbed.report.index import write_index

    console.print(f"index of all runs: {write_index(results)}", soft_wrap=True)


@application.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="folder of a run: results/EXPERIMENT/RUN")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="folder of the run to compare with it")],
    every: Annotated[bool, typer.Option("--all", help="show also the metrics of trials that do not differ")] = False,
) -> None:
    """Tell in which trials two runs differ, with 95 % confidence over all comparisons together.

    The exit code is 3 if a trial differs: in a metric, in its final model, in its validity, or because only one of the runs has
    it; it is 0 if no difference was found, also where there are too few seeds to find one, which the output says. Other
    settings, versions or machines are told, and are no difference by themselves.
    """
    from inalab.testbed.record.runs import load_run
    from inalab.testbed.report.compare import show_comparison

    raise typer.Exit(show_comparison(load_run(first), load_run(second), console, every))


def main() -> None:
    """Run the command line; what a user can mend is one sentence on stderr and exit code 1, an interruption is 130."""
    interrupted = 128 + signal.SIGINT
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & and nohup have it ignored
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_directory() / "torch"))  # PyTorch would make one in /tmp
    try:
        code = _run()
    except KeyboardInterrupt:
        code = interrupted
    if code == interrupted:  # also typer's own word for KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only interrupt Python's own end
        print("inalab: interrupted", file=sys.stderr)
    sys.exit(code)


def _run() -> int | str:
    """The exit code, or the sentence to end with."""
    try:
        return application(standalone_mode=False) or 0
    except Exception as error:
        if explain := getattr(error, "format_message", None):  # the command line itself is wrong
            return f"inalab: {sentence} (inalab --help)" if (sentence := explain()) else 2  # help was shown
        if isinstance(error, _what_a_user_can_mend()):
            return f"inalab: {error}"
        if isinstance(error, OSError) and error.filename and error.strerror:  # what the system does not let be read or written
            return f"inalab: {error.filename}: {error.strerror}"
        if isinstance(error, ModuleNotFoundError) and error.name == "mininet":
            return "inalab: Mininet is not installed: sudo apt-get install mininet (inalab doctor tells what else is missing)"
        raise


def _what_a_user_can_mend() -> tuple[type[Exception], ...]:
    """Imported late, because help should come at once, and these modules take seconds."""
    from inalab.hosts.cores import BuildError
    from inalab.switches.embedded.errors import CompileError
    from inalab.testbed.campaign.machines import MachinesError
    from inalab.testbed.lab.lab import LabError
    from inalab.testbed.plan.settings import SettingsError
    from inalab.testbed.record.runs import ResultsError
    from inalab.topologies.exercise import ExerciseError
    from inalab.topologies.topology import TopologyError

    return LabError, SettingsError, ResultsError, TopologyError, ExerciseError, CompileError, BuildError, MachinesError


if __name__ == "__main__":
    main()
