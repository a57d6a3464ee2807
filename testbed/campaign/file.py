"""A campaign's file: which experiments, with which words, as TOML.

[[run]]
experiment = "workers"
seed = 1                    # default: 1
set = ["seeds=3", "sizes=2,4"]
quick = true                # default: false
scheme = "./mine.py"        # as --scheme
target = "embedded"         # default: the experiment's, which is embedded as a rule
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inalab.testbed.plan.settings import SettingsError


class RunWords(BaseModel):
    """One run, in the words of `inalab run`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: str
    seed: int = Field(1, ge=0, lt=2**31)
    set: tuple[str, ...] = ()
    quick: bool = False
    scheme: str | None = None
    target: str = ""


class CampaignFile(BaseModel):
    """What a file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: tuple[RunWords, ...] = Field(min_length=1)


def read(path: Path) -> CampaignFile:
    """The campaign in a file. Raises SettingsError."""
    try:
        return CampaignFile(**tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        raise SettingsError(f"{path}: {where}: {first['msg'].lower()}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is no campaign: {error}") from None
