"""The errors of the scheduler, in one tree.

    FairlaneError
      ProtocolError      bytes on a socket that are not our protocol (their fault, counted, never fatal)
      BusError
        BrokerUnreachable  nobody answered on the client socket in time
      Refused            the broker, or a worker through it, declined a request; carries what HTTP needs
      SettingsError      a settings file or variable is wrong; names the path
      JournalError       a segment of the journal cannot be used; says why and what to do
      InvariantBroken    our bug: carries the story, never caught

A docstring's first sentence is the default message. Expected refusals inside the core are values
(`effects.Refuse`); `Refused` is how a client library hands one to its caller.
"""

from typing import ClassVar


class FairlaneError(Exception):
    """Something went wrong in Fairlane."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])


class ProtocolError(FairlaneError):
    """The peer sent bytes that are not a message of this protocol."""


class BusError(FairlaneError):
    """The bus could not carry a message."""


class BrokerUnreachable(BusError):
    """The broker does not answer; is `fairlane up` running, with the same run directory?"""

    exit_code: ClassVar[int] = 4


class SettingsError(FairlaneError):
    """The settings are wrong."""


class JournalError(FairlaneError):
    """A segment of the journal cannot be used."""


class InvariantBroken(FairlaneError):
    """A state that cannot be was reached; this is a bug of ours."""


class Refused(FairlaneError):
    """The request was declined.

    Attributes:
        status: HTTP status the refusal maps to, 400-599.
        code: Stable machine-readable reason, such as `queue_full`.
        facts: What else the reply's error object holds, such as `n_ctx`.
        retry_after_s: Seconds after which asking again makes sense, or None.
        began: Whether part of the answer had been delivered before.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        facts: dict[str, str | int | float | bool | None] | None = None,
        retry_after_s: float | None = None,
        began: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.facts = facts or {}
        self.retry_after_s = retry_after_s
        self.began = began
