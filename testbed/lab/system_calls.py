"""System calls that a student's hosts go without: those by which processes that share nothing but read-only files could talk.

A lock on a file that two confinements may both read, or a watch on it, is seen from one in the other. So are the
session's keys, and how many asynchronous contexts there are. A filter (seccomp(2)) lets these calls fail, for a process
and all that it starts.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import platform
import struct

INSTRUCTION = struct.Struct("HBBI")  # sock_filter: code, jumps if true and if not, operand
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # of a word of seccomp_data; of a constant
NUMBER, ARCHITECTURE, SECOND_ARGUMENT = 0, 4, 24  # places in seccomp_data; the low half of an argument, little-endian
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.EPERM
SET_SECCOMP, SET_NO_NEW_PRIVILEGES, FILTER = 22, 38, 2
X32 = 0x40000000  # of a number: calls of a second table
LOCKS = [
    fcntl.F_GETLK,
    fcntl.F_SETLK,
    fcntl.F_SETLKW,
    36,
    37,
    38,
    fcntl.F_SETLEASE,
    fcntl.F_GETLEASE,
    fcntl.F_NOTIFY,
]  # 36 to 38: F_OFD_
# by machine: its AUDIT_ARCH, fcntl, and flock, inotify_init and inotify_init1 (or this alone), fanotify_init, add_key,
# request_key, keyctl, io_setup, io_uring_setup
CALLS = {
    "x86_64": (0xC000003E, 72, [73, 253, 294, 300, 248, 249, 250, 206, 425]),
    "aarch64": (0xC00000B7, 25, [32, 26, 262, 217, 218, 219, 0, 425]),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def forbid() -> None:
    """Let these calls fail from now on. On a machine whose numbers are not known, nothing is forbidden."""
    if platform.machine() not in CALLS:
        return
    text = b"".join(INSTRUCTION.pack(*one) for one in _program(*CALLS[platform.machine()]))
    program = _Program(len(text) // INSTRUCTION.size, text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def _program(architecture: int, fcntl_: int, calls: list[int]) -> list[tuple[int, int, int, int]]:
    """A call of another architecture fails, one of `calls` does, and fcntl does with one of LOCKS; every other is allowed."""
    tests = [(EQUAL, call) for call in calls] + [(AT_LEAST, X32)]
    rows = 3 + len(tests) + 2 + len(LOCKS)  # and then the two ends
    program = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 0, rows - 1, architecture), (LOAD, 0, 0, NUMBER)]
    for code, operand in tests:
        program.append((code, rows - len(program), 0, operand))
    program.append((EQUAL, 0, rows - len(program) - 1, fcntl_))
    program.append((LOAD, 0, 0, SECOND_ARGUMENT))
    for command in LOCKS:
        program.append((EQUAL, rows - len(program), 0, command))
    return [*program, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL)]
