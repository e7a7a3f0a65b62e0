"""What a server says of its slots, as llama-server does."""

import msgspec

from policies.shape import is_array, is_object
from workers.upstream.call import CallFailed, Target, get

TIMEOUT_S = 2.0


def busy(target: Target, path: str) -> set[object] | None:
    """Return the ids of the slots that work, or None if the server does not tell."""
    try:
        status, raw = get(target, path, TIMEOUT_S)
        told = msgspec.json.decode(raw) if status == 200 else None
    except (CallFailed, msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not is_array(told):
        return None
    slots = [slot for slot in told if is_object(slot)]
    return {slot.get("id") for slot in slots if slot.get("is_processing")}
