"""What one modelled client asks for, and the record of a device of what it did for it."""

from msgspec import Struct

# The modelled iGPU at full rate, tokens a second. Near the 124-152 and 15.3 measured for a dense 27B
# model on a Strix Halo, and such that a second of work is a whole number of tokens.
PREFILL_PER_S = 128.0
DECODE_PER_S = 16.0


class Job(Struct):
    """One request of a lane, its truth included: how long the answer will be is known to nobody else."""

    number: int
    lane: str
    row: str  # the row it wants
    routed: bool  # asks for the router collection, not for its row by name
    conversation: str
    starts: bool
    prompt_tokens: int
    output_tokens: int
    max_tokens: int  # what the client states, >= output_tokens
    stream: bool
    asked_at: float
    expires_at: float
    agent: int  # which of the lane's agents asks; 0 where it has none


class Service(Struct, frozen=True, gc=False):
    """One entry of a device's own log: a ticket it worked on, by its own arithmetic."""

    ticket: int
    lane: str
    row: str  # what it ran on
    wanted: str  # what it asked for
    asked_at: float
    start: float
    end: float
    device_s: (
        float  # its part of the time the device was busy; the parts of all sum up to that time
    )
    useful_s: float  # of which decoding and prefill of tokens never seen before
    whole: bool  # ran to its end; else cancelled, or cut by the end of the run


class Result(Struct, frozen=True, gc=False):
    """What a device says of a job that has left it."""

    cancelled: bool
    load_s: float | None  # None: its row was there
    ttft_s: float
    cached_tokens: int


class Left(Struct, frozen=True, gc=False):
    """A request that ended without having been on a device."""

    lane: str
    asked_at: float
    at: float
    why: str  # a refusal's code, or `cancelled`
