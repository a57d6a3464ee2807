"""What run.json and trials.jsonl have, so that a folder from elsewhere is data: read, checked, and never run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

NAME = r"^[\w.-]+$"  # of an experiment, which is a folder's name, too
COLOUR = r"^#[0-9a-fA-F]{6}$"
Text = Annotated[str, Field(max_length=1_000_000)]


class Drawn(BaseModel):
    """How a scheme from outside the package is drawn: its Look, and the tolerance of its bound (see schemes.scheme)."""

    model_config = ConfigDict(strict=True, extra="forbid")
    label: str = Field(max_length=100)
    colour: str = Field(pattern=COLOUR)
    marker: str = Field(max_length=2)
    line: str = Field(max_length=8)
    of_bound: list[float] = Field(min_length=2, max_length=2)


class _Data(BaseModel):
    """Strict in what it names, and open for more: versions of inalab differ in what they record."""

    model_config = ConfigDict(strict=True, extra="allow")


class Machines(_Data):
    processor: Text | None
    cores: int | None
    kernel: Text | None
    trials: int


class Commit(_Data):
    commit: Text | None = None
    changed: bool | None = None
    note: Text | None = None


class Record(_Data):
    """run.json."""

    experiment: str = Field(pattern=NAME)
    target: Text
    seed: int
    set: list[Text]
    trials: list[Text]
    description: Text = ""
    network: Text = ""
    quick: bool = False
    finished: bool = False
    started: Text | None = None
    ended: Text | None = None
    settings: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    machines: list[Machines] = []
    target_versions: dict[str, Any] | None = None
    git: Commit | None = None
    code: dict[str, Any] | None = None
    capture: list[Text] = []
    source: Text | None = None
    schemes_added: dict[str, str] = {}
    foreign: dict[str, str] = {}
    looks: dict[str, Drawn] = {}
    findings: list[Text] = []
    plots: list[Annotated[str, Field(pattern=NAME)]] = []
    failed: list[Text] = []


class Bounds(_Data):
    """Of a scheme from outside the package: the least seconds of a sum, and of a step (testbed.theory.bounds)."""

    sum: float | None
    step: float | None


class Settings(_Data):
    loss: float = 0.0


Number = float | int | None  # None: it was not finite


class Metrics(_Data):
    """What a trial measured; docs/reference/results.md has all of it."""

    model_digest: Text = ""
    tat_median: Number = None
    tat_mean: Number = None
    step_median: Number = None
    ate_per_second: Number = None
    final_accuracy: Number = None
    loss_achieved: Number = None
    retransmissions: Number = None
    packets_sent: Number = None
    duration: Number = None


class Trial(_Data):
    """A line of trials.jsonl."""

    name: Text
    seed: int = 0
    valid: bool = False
    failed: bool = False
    problems: list[Text] = []
    reasons: list[Text] = []
    tries: int = 1
    factors: dict[str, Any] = {}
    settings: Settings = Settings()
    metrics: Metrics = Metrics()
    bounds: Bounds | None = None
    steps: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _measured(self) -> Trial:
        if "metrics" in self.model_fields_set and (lacks := {"factors", "settings", "seed", "valid"} - self.model_fields_set):
            raise ValueError(f"it has metrics, and lacks {', '.join(sorted(lacks))}")
        return self


def problem(kind: type[BaseModel], content: Any) -> str | None:
    """What is wrong with a record, in a few words; None if nothing is."""
    try:
        kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].lower()}"
    return None
