"""A request's text as a set of hashed features: bytes in, bucket numbers out.

Rules of this file: standard library only; works on UTF-8 bytes and ASCII classes, never on Unicode
tables, which differ between Python versions; the same text gives the same set on every machine.
Training and scoring share it.
"""

import re
from itertools import pairwise
from zlib import crc32

from workers.builtin.lexicon import GROUP_OF, PREAMBLE

BUCKET_BITS = 16
BUCKETS = 1 << BUCKET_BITS

# A text of 1,024 bytes or more is decided by the size gate and does not come here; one that does is
# read at both ends, so that time stays bounded.
_HEAD_BYTES = 768
_TAIL_BYTES = 255
_HEAD_TOKENS = 160
_TAIL_TOKENS = 80
_MAX_WORD = 24

_TOKEN = re.compile(
    # Most words: nothing after them that could make them part of a name or a path.
    rb"(?P<plain>[A-Z]?[a-z]+(?:['-][a-z]+)*(?=[ ,?!\n]|\.[ \n]|\.?\Z))"
    rb"|(?P<file>(?<![\w./~-])[\w./~-]{0,60}[\w-]\.(?:py|js|ts|tsx|jsx|rs|go|java|kt|c"
    rb"|cc|cpp|h|hpp|cs|rb|php|sh|sql|html|css|json|ya?ml|toml"
    rb"|csv|txt|log|md|conf|ini|xml|ipynb|lock|swift|scala|vue|lua|zip|gz|tar)\b)"
    rb"|(?P<path>(?<![\w/])(?:~|\.{1,2})?/[\w.*-]+(?:/[\w.*-]*)*)"
    rb"|(?P<flag>(?<![\w-])--?[a-z][\w-]*)"
    rb"|(?P<ident>[A-Za-z_]\w*(?:\(\)|_\w+|::\w+|\.[a-z_]\w*\()|[a-z]+[A-Z]\w*"
    rb"|[A-Z][a-z]+[A-Z]\w*)"
    rb"|(?P<number>\d+(?:[.,]\d+)*)"
    rb"|(?P<word>[A-Za-z]+(?:['-][A-Za-z]+)*(?:\+\+|\#(?!\w))?)"
    rb"|(?P<fence>```)|(?P<high>[\x80-\xff]+)|(?P<line>\n)|(?P<symbol>[^\s\w])"
)
_QUOTES = (
    (b"\xe2\x80\x99", b"'"),
    (b"\xe2\x80\x98", b"'"),
    (b"\xe2\x80\x9c", b'"'),
    (b"\xe2\x80\x9d", b'"'),
)
_SHAPES = frozenset({"file", "path", "flag", "ident"})
_MARKS = b"(){}[]<>=;_`/\\|$#&*+\"'"
_TECHNICAL = frozenset(
    {b"part", b"fault", b"lang", b"gear", b"<file>", b"<path>", b"<flag>", b"<ident>"}
)
_SENTENCE_ENDS = frozenset({b".", b"?", b"!", b"\n", b":"})

# Words that lead an ask, and what marks a sentence as one besides a question mark.
_HEADS = frozenset({b"make", b"mend", b"tell", b"pick", b"fact", b"open"})
_PLEAS = frozenset({b"please", b"pls", b"plz", b"kindly"})
_PLEA_PAIRS = {
    b"can": frozenset({b"you", b"u", b"i", b"we", b"somebody", b"someone"}),
    b"could": frozenset({b"you", b"u", b"somebody", b"someone"}),
    b"would": frozenset({b"you"}),
    b"help": frozenset({b"me", b"us"}),
    b"i": frozenset({b"need", b"want"}),
    b"we": frozenset({b"need", b"want"}),
    b"i'd": frozenset({b"like", b"love", b"need"}),
    b"we'd": frozenset({b"like", b"love", b"need"}),
    b"tell": frozenset({b"me", b"us"}),
    b"give": frozenset({b"me", b"us"}),
    b"show": frozenset({b"me", b"us"}),
    b"how": frozenset({b"do", b"to", b"can", b"would"}),
}


def features(text: str) -> set[int]:
    """The buckets `text` turns on; never empty, since the length of the text is among them."""
    return {crc32(name) & (BUCKETS - 1) for name in feature_names(text)}


def feature_names(text: str) -> set[bytes]:
    """The same features before hashing, for reading what the model looks at."""
    raw = text.encode("utf-8", "surrogatepass")
    for curly, straight in _QUOTES:
        raw = raw.replace(curly, straight)
    if len(raw) > _HEAD_BYTES + _TAIL_BYTES:
        raw = raw[:_HEAD_BYTES] + b"\n" + raw[-_TAIL_BYTES:]
    tokens, shapes = _tokens(raw)
    names = _grams(tokens)
    names |= _group_features(tokens)
    names |= _sentences(tokens)
    names |= _surface(raw, tokens, shapes)
    return names


def _tokens(raw: bytes) -> tuple[list[bytes], list[str]]:
    """Words in lower case, numbers and code shapes by kind; and the code shapes met."""
    tokens: list[bytes] = []
    shapes: list[str] = []
    for match in _TOKEN.finditer(raw):
        kind = match.lastgroup or ""
        if kind in {"plain", "word"}:
            tokens.append(match.group()[:_MAX_WORD].lower())
        elif kind in _SHAPES:
            tokens.append(b"<" + kind.encode() + b">")
            shapes.append(kind)
        elif kind == "number":
            tokens.append(b"<0>" if len(match.group()) < 3 else b"<000>")
        elif kind == "high":
            tokens.append(b"<u>")
        else:
            tokens.append(match.group())
    if len(tokens) > _HEAD_TOKENS + _TAIL_TOKENS:  # what is asked stands at one end of a paste
        tokens = [*tokens[:_HEAD_TOKENS], b"\n", *tokens[-_TAIL_TOKENS:]]
    return tokens, shapes


def _grams(tokens: list[bytes]) -> set[bytes]:
    names = set(tokens)
    names.update(a + b" " + b for a, b in pairwise(tokens))
    for token in set(tokens):
        if len(token) > 5 and token not in GROUP_OF:
            names.add(b"^" + token[:4])
            names.add(b"$" + token[-3:])
    return names


def _group_features(tokens: list[bytes]) -> set[bytes]:
    """Groups met: alone, after the word before, in the order they follow each other, counted."""
    names: set[bytes] = set()
    met: list[bytes] = []
    before = b"|"
    technical = 0
    for token in tokens:
        group = GROUP_OF.get(token)
        if group is None and token[:1] == b"<":
            group = token
        if group is not None:
            names.add(before + b" G" + group)
            technical += group in _TECHNICAL
            if not met or met[-1] != group:
                met.append(group)
        before = token
    names.update(b"technical>=%d" % bound for bound in (1, 2, 3, 5, 8) if technical >= bound)
    names.add(b"technical share %d" % _step(technical * 16 // (len(tokens) + 1)))
    names.update(b"G" + group for group in met)
    names.update(b"G" + a + b">" + b for a, b in pairwise(met))
    names.update(b"G" + a + b">>" + c for a, c in zip(met, met[2:], strict=False))
    return names


def _sentences(tokens: list[bytes]) -> set[bytes]:
    """What each sentence opens with, and which sentences ask for something, and for what."""
    names: set[bytes] = set()
    asking = 0
    start = 0
    spoken: list[bytes] = []
    end = len(tokens)
    for position in range(end + 1):
        if position < end and tokens[position] not in _SENTENCE_ENDS:
            continue
        sentence = tokens[start:position]
        first, start = start == 0, position + 1
        order = [token for token in sentence[:12] if token not in PREAMBLE][:3]
        if not order:
            continue
        spoken = sentence
        names |= _opening(order, b"O1" if first else b"On")
        question = position < end and tokens[position] == b"?"
        if question or _asks(sentence, order):
            asking += 1
            names |= _ask(sentence, order, b"?" if question else b"!")
        else:
            names.update(b"C" + GROUP_OF[token] for token in sentence if token in GROUP_OF)
    if not asking and spoken:
        names |= _ask(spoken, spoken[:3], b".")
    names.add(b"asking %d" % _step(asking))
    names.add(b"first " + (tokens[0] if tokens else b"-"))
    names.add(b"last " + (tokens[-1] if tokens else b"-"))
    return names


def _opening(order: list[bytes], tag: bytes) -> set[bytes]:
    return {
        tag + order[0],
        tag + b" ".join(order[:2]),
        b"O*" + b" ".join(order),
        tag + b"G" + GROUP_OF.get(order[0], b"-"),
    }


def _asks(sentence: list[bytes], order: list[bytes]) -> bool:
    """Whether a sentence without a question mark is an order or a wish all the same."""
    return (
        GROUP_OF.get(order[0]) in _HEADS
        or not _PLEAS.isdisjoint(sentence)
        or any(b in _PLEA_PAIRS.get(a, ()) for a, b in pairwise(sentence))
    )


def _ask(sentence: list[bytes], order: list[bytes], tag: bytes) -> set[bytes]:
    """The words of a sentence that asks, and what its leading word is followed by."""
    names = {b"A" + token for token in sentence}
    names.update(b"A" + a + b" " + b for a, b in pairwise(sentence))
    names.add(b"A" + tag + order[0])
    head = next((token for token in sentence if GROUP_OF.get(token) in _HEADS), None)
    if head is None:
        return names
    kind = GROUP_OF[head]
    names.add(b"H" + tag + head)
    after = sentence[sentence.index(head) + 1 :][:14]
    for token in after:
        group = GROUP_OF.get(token) or (token if token[:1] == b"<" else None)
        if group is not None:
            names.add(b"H" + head + b">" + group)
            names.add(b"H" + kind + b">" + group)
        if len(token) > 3:
            names.add(b"H" + kind + b"-" + token)
    return names


def _surface(raw: bytes, tokens: list[bytes], shapes: list[str]) -> set[bytes]:
    """Length, layout and marks, each as a step on a coarse scale."""
    words = sum(1 for token in tokens if token[:1].isalpha())
    marks = len(raw) - len(raw.translate(None, _MARKS))
    names = {
        b"words %d" % _step(words),
        b"lines %d" % _step(raw.count(b"\n")),
        b"stops %d" % _step(raw.count(b". ") + raw.count(b"? ") + raw.count(b"! ")),
        b"marks %d" % _step(marks * 32 // (len(raw) + 1)),
        b"asks %d" % min(raw.count(b"?"), 2),
        b"numbers %d" % min(tokens.count(b"<0>") + tokens.count(b"<000>"), 4),
        b"shapes %d" % min(len(shapes), 4),
    }
    names.update(b"words>=%d" % bound for bound in (3, 6, 9, 12, 16, 24, 40, 80) if words >= bound)
    if words < 5 and raw.rstrip().endswith(b"?"):
        names.add(b"tiny question")
    return names


def _step(count: int) -> int:
    """A coarse scale: 0, 1, 2, 3-4, 5-8, 9-16, ... as 0, 1, 2, 3, 4, 5, ..."""
    return count if count < 2 else (count - 1).bit_length() + 1
