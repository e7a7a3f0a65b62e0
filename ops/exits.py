"""Exit statuses of the `fairlane` command."""

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit status means."""

    OK = 0
    FAILED = 1  # it ran and did not succeed
    USAGE = 2  # wrong arguments
    INVALID = 3  # settings, table or policy are refused
    UNREACHABLE = 4  # no broker or gateway answers
    DECLINED = 5  # the box refused the request
