"""Parsing a rule's `match`: objects of one operator, or leaves of one or more conditions.

Every condition of a leaf is checked in the contract's order; afterwards they are arranged in the
order of evaluation, which is another one: the classifier first, then by name.
"""

from typing import get_args

from policies.document import (
    MAX_DEPTH,
    All,
    AnyOf,
    Band,
    Bound,
    Chars,
    Classifier,
    Feature,
    FeatureName,
    Keywords,
    Laya,
    Leaf,
    Match,
    Metadata,
    Not,
    Regex,
)
from policies.ecma.pattern import compile_pattern
from policies.errors import PolicyError
from policies.fields import filled, filled_texts, known_keys, non_empty, required_text
from policies.shape import is_filled, is_number, utf8

LOGICAL_KEYS = frozenset({"any", "all", "not"})
BAND_KEYS = ("label", "min_score", "max_score")
KEYWORD_KEYS = ("keywords_any", "keywords_all")
BOUND_KEYS: tuple[Bound, ...] = get_args(Bound)
FEATURE_KEYS: tuple[FeatureName, ...] = get_args(FeatureName)
CONDITION_KEYS = frozenset(
    {"classifier", *KEYWORD_KEYS, "regex", *BOUND_KEYS, *FEATURE_KEYS, "metadata"}
)
LEAF_KEYS = CONDITION_KEYS | frozenset(BAND_KEYS)
MATCH_KEYS = LOGICAL_KEYS | LEAF_KEYS
METADATA_KEYS = frozenset({"key", "equals", "any", "exists"})

# A band without any bound; a band with only an upper one has no floor.
DEFAULT_FLOOR = 0.5

_MAX_LENGTH = 2**63 - 1


class MatchParser:
    """Parses the matches of one policy.

    Attributes:
        faults: Patterns that did not compile, in order; they count only once everything else has
            been parsed.
        needles: The keywords of all leaves so far, folded.
    """

    def __init__(self, classifiers: dict[str, Classifier]) -> None:
        self.classifiers = classifiers
        self.faults: list[PolicyError] = []
        self.needles: list[bytes] = []

    def parse(self, value: object, path: str, depth: int = 0) -> Match:
        """Parse a match object and what is nested in it.

        Args:
            value: The object as builtins.
            path: Its place, for error texts.
            depth: How many match objects it is nested in.

        Raises:
            PolicyError: With the exact text of the first fault.
        """
        if depth > MAX_DEPTH:
            raise PolicyError(f"{path} exceeds maximum match expression depth")
        raw = known_keys(value, MATCH_KEYS, path)
        operators = raw.keys() & LOGICAL_KEYS
        if len(operators) > 1:
            raise PolicyError(f"{path} must contain only one logical operator")
        if not operators:
            return self._leaf(raw, path)
        if len(raw) > 1:
            raise PolicyError(f"{path} cannot mix logical operators with leaf conditions")
        (operator,) = operators
        return self._logical(operator, raw[operator], f"{path}.{operator}", depth + 1)

    def _logical(self, operator: str, value: object, path: str, depth: int) -> Match:
        if operator == "not":
            return Not(self.parse(value, path, depth))
        children = tuple(
            self.parse(child, f"{path}[{index}]", depth)
            for index, child in enumerate(non_empty(value, path))
        )
        return All(children) if operator == "all" else AnyOf(children)

    def _leaf(self, raw: dict[str, object], path: str) -> Match:
        band = self._band(raw, path)
        leaves: dict[str, Leaf] = {}
        for key in KEYWORD_KEYS:
            if key in raw:
                keywords = _keywords(raw[key], key, path)
                self.needles.extend(keywords.needles)
                leaves[key] = keywords
        if "regex" in raw:
            self._regex(raw["regex"], path, leaves)
        for bound in BOUND_KEYS:
            if bound in raw:
                leaves[bound] = Chars(bound, _length(raw[bound], f"{path}.{bound}"))
        for feature in FEATURE_KEYS:
            if feature in raw:
                leaves[feature] = Feature(feature, _boolean(raw[feature], f"{path}.{feature}"))
        if "metadata" in raw:
            leaves["metadata"] = _metadata(raw["metadata"], f"{path}.metadata")
        if raw.keys().isdisjoint(CONDITION_KEYS):
            raise PolicyError(f"{path} must contain at least one leaf condition")
        ordered = [leaves[key] for key in sorted(leaves)]
        ordered = ordered if band is None else [band, *ordered]
        return ordered[0] if len(ordered) == 1 else All(tuple(ordered))

    def _regex(self, value: object, path: str, leaves: dict[str, Leaf]) -> None:
        if not is_filled(value):
            raise PolicyError(f"{path}.regex must be a non-empty string")
        try:
            leaves["regex"] = Regex(compile_pattern(value))
        except PolicyError as fault:
            self.faults.append(fault)

    def _band(self, raw: dict[str, object], path: str) -> Band | None:
        if "classifier" not in raw:
            for key in BAND_KEYS:
                if key in raw:
                    raise PolicyError(f"{path}.{key} requires a classifier condition")
            return None
        name = required_text(raw, "classifier", path)
        classifier = self.classifiers.get(name)
        if classifier is None:
            raise PolicyError(f"{path}.classifier references unknown classifier '{name}'")
        label = _label(raw, classifier, path)
        floor, ceiling = _score(raw, "min_score", path), _score(raw, "max_score", path)
        if floor is not None and ceiling is not None and floor > ceiling:
            raise PolicyError(f"{path} has min_score greater than max_score")
        if isinstance(classifier, Laya) and not floor:
            raise PolicyError(
                f"{path}.min_score must be above 0 for laya classifier '{name}': it reports only "
                "the label it chose, so every other label scores 0.0 and would match as well"
            )
        if floor is None and ceiling is None:
            floor = DEFAULT_FLOOR
        return Band(name, label, floor, ceiling)


def _label(raw: dict[str, object], classifier: Classifier, path: str) -> str | None:
    if "label" not in raw:
        if classifier.labels and classifier.default_label is None:
            text = f"{path} omits label but classifier '{classifier.id}' has no default_label"
            raise PolicyError(text)
        return None
    label = filled(raw["label"], f"{path}.label")
    if label not in classifier.labels:
        text = f"references unknown label '{label}' on classifier '{classifier.id}'"
        raise PolicyError(f"{path}.label {text}")
    return label


def _score(raw: dict[str, object], key: str, path: str) -> float | None:
    if key not in raw:
        return None
    value = raw[key]
    if not is_number(value):
        raise PolicyError(f"{path}.{key} must be numeric")
    if not 0 <= value <= 1:
        raise PolicyError(f"{path}.{key} must be in [0, 1]")
    return float(value)


def _keywords(value: object, key: str, path: str) -> Keywords:
    words = filled_texts(value, f"{path}.{key}")
    # bytes.lower() folds A-Z and nothing else.
    return Keywords(tuple(utf8(word).lower() for word in words), every=key == "keywords_all")


def _length(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_LENGTH:
        raise PolicyError(f"{path} must be a non-negative integer")
    return value


def _boolean(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"{path} must be a boolean")
    return value


def _metadata(value: object, path: str) -> Metadata:
    raw = known_keys(value, METADATA_KEYS, path)
    key = required_text(raw, "key", path)
    if len(raw) != 2:
        text = "must contain exactly one comparator: equals, any, or exists"
        raise PolicyError(f"{path} {text}")
    if "equals" in raw:
        equals = raw["equals"]
        if not isinstance(equals, str):
            raise PolicyError(f"{path}.equals must be a string")
        return Metadata(key, equals=equals)
    if "any" in raw:
        return Metadata(key, any_of=frozenset(filled_texts(raw["any"], f"{path}.any")))
    return Metadata(key, exists=_boolean(raw["exists"], f"{path}.exists"))
