"""The bytes on the bus: message types and their frames. See PROTOCOL.md beside this file."""

from scheduler.wire.codec import BODY_MAX, HEADER_MAX, decode, encode

__all__ = ["BODY_MAX", "HEADER_MAX", "decode", "encode"]
