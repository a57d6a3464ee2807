"""Classes of Apache Thrift's Python library for what interface.py describes: types, clients and the server's side."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thrift.protocol.TBase import TBase, TExceptionBase
from thrift.Thrift import TApplicationException, TMessageType, TProcessor, TType

from . import interface

CALL = re.compile(r"(\S+)\s+(\w+)\(([^)]*)\)")
BASES = {"void": TType.VOID, "bool": TType.BOOL, "i16": TType.I16, "i32": TType.I32, "i64": TType.I64, "double": TType.DOUBLE}
TEXTS = {"string": "UTF8", "binary": "BINARY"}
Spec = tuple[Any, ...]  # of one field, as the library has it: number, type, name, what the type is made of, default


@dataclass(frozen=True)
class Call:
    """A remote procedure: what it is given and what it returns, each as a struct, and the error it may raise."""

    name: str
    given: type
    returned: type
    error: type | None


def _enumeration(name: str, values: str) -> type:
    numbers, following = {}, 1
    for word in values.split():
        value, _, number = word.partition("=")
        numbers[value] = int(number) if number else following
        following = numbers[value] + 1
    by_number = {number: value for value, number in numbers.items()}
    return type(name, (), {**numbers, "_NAMES_TO_VALUES": numbers, "_VALUES_TO_NAMES": by_number})


def _typed(text: str) -> tuple[int, Any]:
    """A type and what it is made of."""
    if text in BASES:
        return BASES[text], None
    if text in TEXTS:
        return TType.STRING, TEXTS[text]
    if text.startswith("list<"):
        return TType.LIST, (*_typed(text[5:-1]), False)
    if text.startswith("map<"):
        key, value = text[4:-1].split(",")
        return TType.MAP, (*_typed(key), *_typed(value), False)
    if text in interface.ENUMERATIONS:
        return TType.I32, None
    return TType.STRUCT, [TYPES[text], TYPES[text].thrift_spec]


def _field(number: int, text: str) -> Spec:
    type_, name = text.split()
    return (number, _typed(type_)[0], name, _typed(type_)[1], None)


def _fields(text: str) -> list[Spec]:
    return [_field(number, one) for number, one in enumerate(re.split(r",\s+", text.strip()), start=1)] if text else []


def _struct(name: str, fields: list[Spec], base: type = TBase) -> type:
    """A class whose instances are made of values in the order of the fields, or by their names."""
    names = [one[2] for one in fields]
    by_number: list[Spec | None] = [None] * (fields[-1][0] + 1 if fields else 0)
    for one in fields:
        by_number[one[0]] = one

    def initialize(self: Any, *values: Any, **named: Any) -> None:
        for one in names:
            setattr(self, one, None)
        for one, value in [*zip(names, values, strict=False), *named.items()]:
            setattr(self, one, value)

    return type(name, (base,), {"__slots__": names, "__init__": initialize, "thrift_spec": tuple(by_number)})


TYPES: dict[str, Any] = {name: _enumeration(name, values) for name, values in interface.ENUMERATIONS.items()}
for _name, _text in interface.STRUCTS.items():
    TYPES[_name] = _struct(_name, _fields(_text))
for _name, _text in interface.ERRORS.items():
    TYPES[_name] = _struct(_name, _fields(_text), TExceptionBase)


def _call(result: str, name: str, parameters: str, error: str) -> Call:
    given = _fields(re.sub(r"^cxt\b", "i32 cxt_id", parameters))
    returned = [] if result == "void" else [_field(0, f"{result} success")]
    returned += [_field(1, f"{error} ouch")] if error else []
    return Call(name, _struct(f"{name}_args", given), _struct(f"{name}_result", returned), TYPES.get(error))


CALLS = {
    service: {one[2]: _call(one[1], one[2], one[3], error) for error, text in texts.items() for one in CALL.finditer(text)}
    for service, texts in interface.SERVICES.items()
}


def client(service: str) -> type:
    """A class whose instances call a service over a protocol of the library, as those do that Thrift's compiler writes."""

    def initialize(self: Any, iprot: Any, oprot: Any = None) -> None:
        self._iprot, self._oprot = iprot, oprot or iprot

    return type("Client", (), {"__init__": initialize, **{name: _caller(call) for name, call in CALLS[service].items()}})


def _caller(call: Call) -> Callable[..., Any]:
    def remote(self: Any, *values: Any, **named: Any) -> Any:
        self._oprot.writeMessageBegin(call.name, TMessageType.CALL, 0)
        call.given(*values, **named).write(self._oprot)
        self._oprot.writeMessageEnd()
        self._oprot.trans.flush()
        _, kind, _ = self._iprot.readMessageBegin()
        answer: Any = TApplicationException() if kind == TMessageType.EXCEPTION else call.returned()
        answer.read(self._iprot)
        self._iprot.readMessageEnd()
        if kind == TMessageType.EXCEPTION:
            raise answer
        if getattr(answer, "ouch", None) is not None:
            raise answer.ouch
        return getattr(answer, "success", None)

    return remote


class Processor(TProcessor):
    """Answers the calls of one service with the functions of those names; each may raise its call's error.

    What else it raises is a TApplicationException, whose text the client sees.
    """

    def __init__(self, service: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.calls, self.functions = CALLS[service], functions

    def process(self, iprot: Any, oprot: Any) -> None:
        name, _, number = iprot.readMessageBegin()
        call = self.calls.get(name)
        if call is None:
            iprot.skip(TType.STRUCT)
            iprot.readMessageEnd()
            _answer(oprot, name, number, TApplicationException(TApplicationException.UNKNOWN_METHOD, f"there is no call {name}"))
            return
        given = call.given()
        given.read(iprot)
        iprot.readMessageEnd()
        _answer(oprot, name, number, self._result(call, [getattr(given, one) for one in given.__slots__]))

    def _result(self, call: Call, values: list[Any]) -> Any:
        result = call.returned()
        if None in values:
            return TApplicationException(TApplicationException.PROTOCOL_ERROR, f"{call.name} is not given all that it takes")
        try:
            success = self.functions[call.name](*values)
        except TApplicationException as error:
            return error
        except TExceptionBase as error:
            assert isinstance(error, call.error or ())
            result.ouch = error
        except Exception as error:
            traceback.print_exc()
            text = f"the server failed ({type(error).__name__}), which is a defect of it"
            return TApplicationException(TApplicationException.INTERNAL_ERROR, text)
        else:
            if "success" in result.__slots__:
                result.success = success
        return result


def _answer(oprot: Any, name: str, number: int, answer: Any) -> None:
    refused = isinstance(answer, TApplicationException)
    oprot.writeMessageBegin(name, TMessageType.EXCEPTION if refused else TMessageType.REPLY, number)
    answer.write(oprot)
    oprot.writeMessageEnd()
    oprot.trans.flush()
