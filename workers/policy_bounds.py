"""How large a policy may be that comes from a client. Pure.

Upstream knows no such bounds. A pattern takes up to 5 ms to compile, and all registered
policies travel in one message, so without them one client could keep a helper busy for minutes or make
the catalogue too large to be sent.
"""

from policies.shape import is_array, is_object

BYTES_MAX = 1024 * 1024  # one policy
SHELF_BYTES_MAX = (
    8 * 1024 * 1024
)  # all registered policies together; half of what a message may hold
PATTERNS_MAX = 256  # `regex` conditions in one policy
NAME_MAX = 256  # characters of a model name or a rule id, as the wire takes them
POLICIES_MAX = 1024


def fault_of(document: object, size: int) -> str | None:
    """Return why a policy is too large, or None.

    Args:
        document: The decoded policy.
        size: Bytes of its JSON.
    """
    if size > BYTES_MAX:
        return f"the policy has {size} bytes; at most {BYTES_MAX} are taken"
    patterns = _patterns(document)
    if patterns > PATTERNS_MAX:
        return f"the policy has {patterns} regex conditions; at most {PATTERNS_MAX} are taken"
    rules = document.get("routing") if is_object(document) else None
    listed = rules.get("rules") if is_object(rules) else None
    for rule in listed if is_array(listed) else ():
        if is_object(rule) and len(str(rule.get("id", ""))) > NAME_MAX:
            return f"a rule id has at most {NAME_MAX} characters"
    return None


def _patterns(document: object) -> int:
    found = 0
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if is_array(node):
            waiting += node
        elif is_object(node):
            found += "regex" in node
            waiting += node.values()
    return found
