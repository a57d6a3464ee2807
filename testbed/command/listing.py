"""What `inalab list` shows: experiments and schemes, a line each, and the settings of one of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic.fields import FieldInfo
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.hosts.plugins import defines, is_file
from inalab.schemes import registry
from inalab.testbed.command.terminal import styled
from inalab.testbed.plan import experiment as experiments
from inalab.testbed.plan.groups import GROUPS
from inalab.testbed.plan.settings import SettingsError, TrialSettings, named_scheme, own_names
from inalab.testbed.plan.sweep import SweepSettings

Row = tuple[str, str, str, str]  # name, default, range, description


def show_all(console: Console) -> None:
    """A line for each experiment and each scheme."""
    summaries = {name: experiments.summary(experiments.load(name)) for name in experiments.names()}
    _show(console, "Experiments: inalab run NAME", ("name", "what it shows"), summaries.items())
    schemes = {name: first_line(registry.find(name)) for name in registry.names()}
    _show(console, "Schemes: inalab run NAME --scheme SCHEME", ("name", "what sums the gradients"), schemes.items())
    console.print("inalab list NAME shows the settings of an experiment or a scheme, for --set KEY=VALUE.")


def show_settings(console: Console, name: str) -> None:
    """The settings of an experiment or a scheme. SettingsError if there is neither of that name."""
    headings = ("setting", "default", "range", "what it is")
    if name in registry.names() or (is_file(name) and defines(name, "SCHEME")):
        scheme = registry.find(named_scheme(name))
        its = _rows(scheme.Settings, scheme.Settings.model_fields)
        _show(console, f"{scheme.name}: {first_line(scheme)}", headings, _own(scheme.name, its))
        return
    try:
        chosen = experiments.load(name)
    except SettingsError:
        if is_file(name):
            raise
        known = [*experiments.names(), *registry.names()]
        raise SettingsError(f"there is no experiment or scheme {name}: choose one of {', '.join(known)}") from None
    kind = chosen.Settings
    added = [key for key in kind.model_fields if key not in TrialSettings.model_fields]
    console.print(styled((experiments.short(name), "bold"), f": {experiments.summary(chosen)}"))
    if added:
        _show(console, "of the experiment", headings, _rows(kind, added))
    note = " (the experiment sets some itself)" if issubclass(kind, SweepSettings) else ""
    _show(console, f"of its trials{note}", headings, of_trials(kind))
    for group_name, about, its in of_groups(kind):
        _show(console, f"{group_name}: {about}", headings, its)
    for scheme_name, its in of_schemes():
        _show(console, f"of the scheme {scheme_name}", headings, its)


def of_trials(kind: type[TrialSettings]) -> list[Row]:
    """The settings of a trial that are in no group."""
    grouped = {key for group in GROUPS.values() for key in group.model_fields}
    return _rows(kind, [key for key in TrialSettings.model_fields if key not in {"own", *grouped}])


def of_groups(kind: type[TrialSettings]) -> Iterator[tuple[str, str, list[Row]]]:
    """Each group's name, what it is about, and its settings."""
    for name, group in GROUPS.items():
        yield name, inspect.getdoc(group) or "", _rows(kind, group.model_fields)


def of_schemes() -> Iterator[tuple[str, list[Row]]]:
    """Each scheme that has settings of its own, and these."""
    for name in registry.names():
        if mine := own_names(name):
            yield name, _own(name, _rows(registry.find(name).Settings, mine))


def _own(scheme: str, its: Iterable[Row]) -> list[Row]:
    """With the scheme's name before what is the scheme's alone."""
    return [(key if key in TrialSettings.model_fields else f"{scheme}.{key}", *rest) for key, *rest in its]  # type: ignore[misc]


def _rows(kind: type[Any], keys: Iterable[str]) -> list[Row]:
    fields: dict[str, FieldInfo] = kind.model_fields
    return [(key, _plain(fields[key].default), _range(key, fields[key]), _described(key, fields[key])) for key in keys]


def _described(key: str, field: FieldInfo) -> str:
    """Its description; an experiment that changes a default alone does not repeat it."""
    inherited = TrialSettings.model_fields.get(key)
    return field.description or (inherited.description if inherited else None) or ""


def _range(key: str, field: FieldInfo) -> str:
    """The least and the largest value; an experiment that changes a default alone keeps them."""
    inherited = TrialSettings.model_fields.get(key)
    found: dict[str, Any] = {}
    for limit in field.metadata or (inherited.metadata if inherited else []):
        found |= {name: value for name in ("ge", "gt", "le", "lt") if (value := getattr(limit, name, None)) is not None}
    least = next((f"{sign} {found[name]:g}" for name, sign in (("ge", "≥"), ("gt", ">")) if name in found), "")
    most = next((f"{sign} {found[name]:g}" for name, sign in (("le", "≤"), ("lt", "<")) if name in found), "")
    return ", ".join(part for part in (least, most) if part)


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def first_line(thing: Any) -> str:
    """Of the docstring of the module that defines an object's class."""
    module = inspect.getmodule(type(thing))
    return (module.__doc__ or "").strip().splitlines()[0] if module and module.__doc__ else ""


def _show(console: Console, title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)
