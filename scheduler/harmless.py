"""Other people's words without what a terminal would obey.

Rules of this file: pure, and the one home of it. Lanes, requests, models and commands are named by whoever
asks the box, so a name may hold escape sequences, line breaks and marks that turn the direction of writing;
whatever shows one to a person passes here first. JSON needs none of it: there they are written out.
"""

import unicodedata
from typing import Any

from policies.shape import is_array, is_object

_OBEYED = "\ufffd"  # stands where such a character was


def harmless(view: Any) -> Any:
    """Return a text, or a view with all texts in it, on one line each: what does not print is replaced."""
    if isinstance(view, str):
        if view.isprintable():
            return view
        return "".join(c if c.isprintable() else _OBEYED for c in view)
    if is_array(view):
        return [harmless(one) for one in view]
    if is_object(view):
        return {harmless(key): harmless(one) for key, one in view.items()}
    return view


def readable(text: str) -> str:
    """Return a text of several lines, such as an answer or an error, without what a terminal would obey.

    Line breaks and tabs stay, and what joins or directs letters does: a language may need it.
    """
    if text.isprintable():
        return text
    return "".join(_OBEYED if _is_obeyed(c) else c for c in text)


def _is_obeyed(c: str) -> bool:
    return unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"
