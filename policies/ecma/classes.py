"""Bracket expressions: which bytes one matches.

Bytes compare as signed numbers, as `char` does on the machines that Lemonade runs on: a letter
outside ASCII counts as two or more negative members, and a range up to one is reversed.
"""

from policies.ecma.tree import ALL_BYTES, DIGITS, LOWER, SPACE, UPPER, WORD, byte_set

_PUNCTUATION = byte_set(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_ALPHA = LOWER | UPPER
_CONTROL = byte_set([*range(32), 127])

CLASSES = {
    b"d": DIGITS,
    b"w": WORD,
    b"s": SPACE,
    b"alnum": _ALPHA | DIGITS,
    b"alpha": _ALPHA,
    b"blank": byte_set(b" \t"),
    b"cntrl": _CONTROL,
    b"digit": DIGITS,
    b"graph": _ALPHA | DIGITS | _PUNCTUATION,
    b"lower": LOWER,
    b"print": _ALPHA | DIGITS | _PUNCTUATION | byte_set(b" "),
    b"punct": _PUNCTUATION,
    b"space": SPACE,
    b"upper": UPPER,
    b"xdigit": DIGITS | byte_set(b"abcdefABCDEF"),
}

# POSIX names of single characters, in the order of their codes.
_NAMES = """
NUL SOH STX ETX EOT ENQ ACK alert backspace tab newline vertical-tab form-feed carriage-return
SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC IS4 IS3 IS2 IS1 space exclamation-mark
quotation-mark number-sign dollar-sign percent-sign ampersand apostrophe left-parenthesis
right-parenthesis asterisk plus-sign comma hyphen period slash zero one two three four five six
seven eight nine colon semicolon less-than-sign equals-sign greater-than-sign question-mark
commercial-at A B C D E F G H I J K L M N O P Q R S T U V W X Y Z left-square-bracket backslash
right-square-bracket circumflex underscore grave-accent a b c d e f g h i j k l m n o p q r s t
u v w x y z left-curly-bracket vertical-line right-curly-bracket tilde DEL
"""
CHARACTERS = {name.encode(): code for code, name in enumerate(_NAMES.split())}


def signed(byte: int) -> int:
    """Return a byte's value as a signed `char`."""
    return byte - 256 if byte > 127 else byte


def byte_range(first: int, last: int) -> int | None:
    """Return the set of a range, `None` if it is reversed."""
    low, high = signed(first), signed(last)
    if low > high:
        return None
    return byte_set(value % 256 for value in range(low, high + 1))


def equivalents(byte: int) -> int:
    """Return the bytes that sort like this one first of all: the letter in both cases."""
    folded = bytes([byte])
    return byte_set(folded.lower() + folded.upper())


def complement(members: int) -> int:
    """Return all other bytes."""
    return ALL_BYTES & ~members
