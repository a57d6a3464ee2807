"""What a P4Runtime client is told when something cannot be done (P4Runtime 1.4, section 12.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2


class P4RuntimeError(Exception):
    """A request or an update that is refused; `code` is one of google.rpc.code_pb2, str() one sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def invalid(message: str) -> P4RuntimeError:
    return P4RuntimeError(code_pb2.INVALID_ARGUMENT, message)


def unimplemented(message: str) -> P4RuntimeError:
    return P4RuntimeError(code_pb2.UNIMPLEMENTED, message)


def not_found(message: str) -> P4RuntimeError:
    return P4RuntimeError(code_pb2.NOT_FOUND, message)


def already_exists(message: str) -> P4RuntimeError:
    return P4RuntimeError(code_pb2.ALREADY_EXISTS, message)


def denied(message: str) -> P4RuntimeError:
    return P4RuntimeError(code_pb2.PERMISSION_DENIED, message)


MOST_DETAILS = 7000  # bytes of a status that gRPC carries beside an answer


def status_of(errors: Sequence[P4RuntimeError | None]) -> Any:
    """The google.rpc.Status of a batch: an Error for each of its updates, in their order."""
    status = status_pb2.Status(code=code_pb2.UNKNOWN, message="some updates of the batch failed; see the details")
    for error in errors:
        one = p4runtime_pb2.Error(canonical_code=code_pb2.OK)
        if error is not None:
            one = p4runtime_pb2.Error(canonical_code=error.code, message=str(error), space="inalab")
        status.details.add().Pack(one)
    if status.ByteSize() > MOST_DETAILS:
        first, reason = next((i, error) for i, error in enumerate(errors) if error is not None)
        failed = sum(error is not None for error in errors)
        del status.details[:]
        status.message = f"{failed} of {len(errors)} updates failed, too many for details; the first, number {first}: {reason}"[
            :1000
        ]
    return status
