"""JSON files that people write: a model for each object in them, and one sentence for the first thing that is wrong.

A key that looks like a misspelt one is refused. Other unknown keys pass, because other programs may read them.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

REFUSED = "refused"  # the type of errors whose message is the sentence itself
LIKENESS = 0.81  # "comands" is commands; "ip6" is not ip
SHOWN = 60  # characters of a value that a sentence shows


class JsonFileError(Exception):
    """A file that cannot be followed; str() is one sentence."""


class Part(BaseModel):
    """An object in a file. The description of a field says what to write there, and ends a sentence."""

    model_config = ConfigDict(strict=True, frozen=True)

    nouns: ClassVar[dict[str, str]] = {}  # what one of a field's values is called in a sentence

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            raise refusal(f"{shown(given)} is not an object: write {{…}}")
        for key in given:
            if key not in cls.model_fields and (meant := _meant(key, list(cls.model_fields))):
                raise refusal(f'"{key}" is unknown: did you mean "{meant}"?')
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in given:
                raise refusal(f'"{name}" is missing: write {field.description}')
        return given

    @field_validator("*", mode="wrap")
    @classmethod
    def _say_what_is_right(cls, value: Any, handler: Any, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            if any(one["type"] == REFUSED for one in error.errors()):
                raise
            name = str(info.field_name)
            raise wrong(name, value, str(cls.model_fields[name].description)) from None


Kind = TypeVar("Kind", bound=Part)


def refusal(sentence: str) -> PydanticCustomError:
    """What a validator raises; the place in the file is put before it."""
    return PydanticCustomError(REFUSED, "{sentence}", {"sentence": sentence})


def wrong(name: str, value: Any, right: str) -> PydanticCustomError:
    """What a validator raises for the value of a field."""
    return refusal(f'"{name}" is {shown(value)}: write {right}')


def shown(value: Any) -> str:
    """A value as it is in the file, cut short."""
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def read(kind: type[Kind], path: Path, name: str | None = None) -> Kind:
    """The file as a model. Sentences call it `name`. Raises JsonFileError."""
    name = name or str(path)
    try:
        return kind.model_validate(_parse(path, name))
    except ValidationError as error:
        first = error.errors()[0]
        places = [f"{kind.nouns[above]} {_ordinal(at)}" for above, at in pairwise(first["loc"]) if above in kind.nouns]
        raise JsonFileError(": ".join([name, *places, first["msg"]])) from None


def _parse(path: Path, name: str) -> Any:
    try:
        return json.loads(path.read_text(), object_pairs_hook=_object, parse_constant=_not_json)
    except OSError as error:
        raise JsonFileError(f"cannot read {name}: {error.strerror}") from None
    except RecursionError:
        raise JsonFileError(f"{name} is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise JsonFileError(f"{name} is not JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f'an object has the key "{next(key for key in keys if keys.count(key) > 1)}" twice')
    return made


def _not_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _ordinal(at: str | int) -> str:
    return str(at + 1 if isinstance(at, int) else at)


def _meant(key: str, known: list[str]) -> str | None:
    """The key that was probably meant. A number at the end makes another key: mac2 is not a misspelt mac."""
    near = get_close_matches(key.lower(), known, 1, LIKENESS)
    return near[0] if near and not key[-1:].isdigit() else None
