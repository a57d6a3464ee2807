"""The error of a Thrift call for what a switch says when it refuses a command."""

from __future__ import annotations

import re

from thrift.Thrift import TApplicationException

from ..control import CommandError
from .binding import TYPES
from .interface import ERRORS

# of each error: what the sentence has, and the code's name; the first that fits counts
CODES = {
    "InvalidTableOperation": [
        (r"there is no table ", "INVALID_TABLE_NAME"),
        (r"there is no action_profile ", "INVALID_ACTION_PROFILE_NAME"),
        (r"there is no (counter|meter) ", "ERROR"),
        (r"has no action ", "INVALID_ACTION_NAME"),
        (r"is full", "TABLE_FULL"),
        (r"has such an entry", "DUPLICATE_ENTRY"),
        (r"the entries of table \S+ are const", "IMMUTABLE_TABLE_ENTRIES"),
        (r"the default action of table \S+ is const", "DEFAULT_ENTRY_IS_CONST"),
        (r"do not age", "AGEING_DISABLED"),
        (r"has no entry of that key", "BAD_MATCH_KEY"),
        (r"has no entry |is not a handle$", "INVALID_HANDLE"),
        (r"refers to members|has no action profile", "WRONG_TABLE_TYPE"),
        (r"has no groups", "NO_ACTION_PROFILE_SELECTION"),
        (r"group \d+ of \S+ is empty", "EMPTY_GRP"),
        (r"member \d+ of \S+ is still used", "MBR_STILL_USED"),
        (r"group \d+ of \S+ is still used", "GRP_STILL_USED"),
        (r"group \d+ has member", "MBR_ALREADY_IN_GRP"),
        (r"group \d+ has no member", "MBR_NOT_IN_GRP"),
        (r"has no member ", "INVALID_MBR_HANDLE"),
        (r"has no group ", "INVALID_GRP_HANDLE"),
        (r"has no key$", "NO_TABLE_KEY"),
        (r"does not match key|key fields", "BAD_MATCH_KEY"),
        (r"is not a value for|takes \d+ parameters", "BAD_ACTION_DATA"),
        (r"is not a rate|second rate", "INVALID_METER_OPERATION"),
    ],
    "InvalidCounterOperation": [(r"there is no ", "INVALID_COUNTER_NAME"), (r"is not a cell", "INVALID_INDEX")],
    "InvalidMeterOperation": [
        (r"there is no ", "INVALID_METER_NAME"),
        (r"is not a cell", "INVALID_INDEX"),
        (r"^usage", "BAD_RATES_LIST"),
        (r"is not a rate|second rate", "INVALID_INFO_RATE_VALUE"),
    ],
    "InvalidRegisterOperation": [(r"there is no ", "INVALID_REGISTER_NAME"), (r"is not a (cell|range)", "INVALID_INDEX")],
    "InvalidParseVSetOperation": [(r"there is no ", "INVALID_PARSE_VSET_NAME")],
    "InvalidCrcOperation": [
        (r"there is no ", "INVALID_CALCULATION_NAME"),
        (r"is a crc", "WRONG_TYPE_CALCULATION"),
        (r"", "INVALID_CONFIG"),
    ],
    "InvalidMcOperation": [
        (r"is already in group", "ERROR"),
        (r"multicast group", "INVALID_MGID"),
        (r"multicast node|^node ", "INVALID_L1_HANDLE"),
    ],
    "InvalidDevMgrOperation": [],  # ports are given when a switch starts
    "InvalidMirroringOperation": [(r"", "SESSION_NOT_FOUND")],
}


def error(name: str, code: str) -> Exception:
    """An error with the code of that name."""
    made: Exception = TYPES[name](getattr(TYPES[ERRORS[name].split()[0]], code))
    return made


def of(name: str, refused: CommandError) -> Exception:
    """The error of that name for a refused command; its code is ERROR for what has none."""
    code = next((code for pattern, code in CODES[name] if re.search(pattern, str(refused))), "ERROR")
    return error(name, code)


def sentence(text: object) -> Exception:
    """What has no error of its own: the client shows the text."""
    made: Exception = TApplicationException(TApplicationException.INTERNAL_ERROR, str(text))
    return made
