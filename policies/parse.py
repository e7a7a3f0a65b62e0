"""Parsing a `collection.router` policy: decoded JSON in, `document.Policy` out.

The order of the checks is part of the contract, because the first fault is the one reported.
Patterns are compiled last, as the original does it when it builds its engine.
"""

import re
from collections.abc import Callable

import msgspec

from policies.document import Policy, Rule
from policies.errors import PolicyError
from policies.fields import filled, known_keys, non_empty, required, required_text
from policies.keywords import index_of
from policies.parse_classifiers import build_classifiers, read_entries
from policies.parse_match import MatchParser
from policies.shape import is_array, is_object

ROOT_KEYS = frozenset({"version", "model_name", "recipe", "components", "models", "routing"})
ROUTING_KEYS = frozenset({"candidates", "default_model", "router", "classifiers", "rules"})
ROUTER_KEYS = frozenset({"type", "model", "prompt"})
RULE_KEYS = frozenset({"id", "match", "route_to", "outputs"})

VERSION = "1"
RECIPE = "collection.router"

_RULE_ID = re.compile(r"[A-Za-z0-9._-]+")

Lookup = Callable[[str], str | None]


class Names(msgspec.Struct, frozen=True):
    """How model names are looked up while parsing.

    Attributes:
        resolve: Written name -> canonical name, `None` if there is no such model.
        model_type: Canonical name -> `llm`, `embedding`, `classification` or another type, `None`
            if it cannot be told; `None` itself skips the check.
        declared: Canonical names of the components.
    """

    resolve: Lookup
    model_type: Lookup | None
    declared: frozenset[str]

    def component(self, name: str, path: str) -> str:
        """Return the canonical name of a declared component."""
        canonical = resolved(name, self.resolve, path)
        if canonical not in self.declared:
            text = f"{path} references component '{name}' that is not declared in"
            raise PolicyError(f"{text} collection.components")
        return canonical


def parse_policy(
    policy: object, *, resolve: Lookup | None = None, model_type: Lookup | None = None
) -> Policy:
    """Parse a policy.

    Args:
        policy: The decoded JSON document.
        resolve: Written name -> canonical name, `None` for an unknown one; without it every name
            stands for itself.
        model_type: Canonical name -> type of the model; without it types are not checked.

    Raises:
        PolicyError: With the exact text of the first fault.
    """
    root = known_keys(policy, ROOT_KEYS, "collection")
    _check_version(required_text(root, "version", "collection"))
    if required_text(root, "recipe", "collection") != RECIPE:
        raise PolicyError(f"collection.recipe must be '{RECIPE}' for a routing policy")
    lookup = resolve or _itself
    names = Names(lookup, model_type, _components(root, lookup))
    routing = known_keys(required(root, "routing", "collection"), ROUTING_KEYS, "routing")
    candidates = _candidates(routing, names)
    default = _listed(routing, "default_model", "routing", candidates, names)
    if "router" in routing:
        routing = _write_out_router(routing)
    classifiers = build_classifiers(read_entries(routing, names.component, names.model_type))
    matches = MatchParser(classifiers)
    rules = _rules(routing, candidates, names, matches)
    if matches.faults:
        raise matches.faults[0]
    index = index_of(matches.needles)
    return Policy(candidates, default, classifiers, rules, routing, index)


def resolved(name: str, resolve: Lookup, path: str) -> str:
    """Return the canonical name of a model that must be known."""
    canonical = resolve(name)
    if not canonical:
        raise PolicyError(f"{path} references unknown component '{name}'")
    return canonical


def _itself(name: str) -> str:
    return name


def _check_version(version: str) -> None:
    major = version.partition(".")[0]
    if major != VERSION:
        text = f"Unsupported collection.router schema major '{major}' from version '{version}'"
        raise PolicyError(f"{text}; supported major is '{VERSION}'")
    if version != VERSION:
        text = f"Unsupported collection.router schema version '{version}'"
        raise PolicyError(f"{text}; this parser implements version '{VERSION}'")


def _components(root: dict[str, object], resolve: Lookup) -> frozenset[str]:
    if "components" not in root:
        raise PolicyError("collection.router requires a non-empty components array")
    path = "collection.components"
    # One at a time: a name that is unknown is reported before a later item of a wrong type.
    return frozenset(
        resolved(filled(item, f"{path}[{index}]"), resolve, f"{path}[{index}]")
        for index, item in enumerate(non_empty(root["components"], path))
    )


def _candidates(routing: dict[str, object], names: Names) -> tuple[str, ...]:
    candidates: list[str] = []
    items = non_empty(required(routing, "candidates", "routing"), "routing.candidates")
    for index, item in enumerate(items):
        path = f"routing.candidates[{index}]"
        name = filled(item, path)
        canonical = names.component(name, path)
        if canonical in candidates:
            raise PolicyError(f"{path} duplicates candidate '{name}'")
        candidates.append(canonical)
    return tuple(candidates)


def _listed(
    value: dict[str, object], key: str, path: str, candidates: tuple[str, ...], names: Names
) -> str:
    """Return the canonical name of a field that must hold one of the candidates."""
    name = required_text(value, key, path)
    canonical = names.component(name, f"{path}.{key}")
    if canonical not in candidates:
        raise PolicyError(f"{path}.{key} '{name}' must be listed in routing.candidates")
    return canonical


def _write_out_router(routing: dict[str, object]) -> dict[str, object]:
    """Replace the `router` shorthand by one `llm` classifier and one rule a candidate.

    Labels keep the author's spelling, because the author's prompt uses it and the model answers
    with it.
    """
    router = known_keys(routing["router"], ROUTER_KEYS, "routing.router")
    if required_text(router, "type", "routing.router") != "llm":
        raise PolicyError("routing.router.type must be 'llm'")
    if "classifiers" in routing or "rules" in routing:
        text = "routing.router cannot be combined with routing.classifiers or routing.rules"
        raise PolicyError(text)
    model = required_text(router, "model", "routing.router")
    prompt = required_text(router, "prompt", "routing.router")
    names = routing["candidates"]
    labels = list(names) if is_array(names) else []
    kind = {"id": "__router", "type": "llm", "model": model, "prompt": prompt, "labels": labels}
    rules: list[object] = [
        {
            "id": f"__route_{index}",
            "match": {"classifier": "__router", "label": label, "min_score": 1.0},
            "route_to": label,
        }
        for index, label in enumerate(labels)
    ]
    rest = {key: value for key, value in routing.items() if key != "router"}
    return {**rest, "classifiers": [kind], "rules": rules}


def _rules(
    routing: dict[str, object], candidates: tuple[str, ...], names: Names, matches: MatchParser
) -> tuple[Rule, ...]:
    rules: dict[str, Rule] = {}
    items = non_empty(required(routing, "rules", "routing"), "routing.rules")
    for index, item in enumerate(items):
        path = f"routing.rules[{index}]"
        raw = known_keys(item, RULE_KEYS, path)
        rule_id = required_text(raw, "id", path)
        if not _RULE_ID.fullmatch(rule_id):
            raise PolicyError(f"{path}.id must match [A-Za-z0-9._-]")
        if rule_id in rules:
            raise PolicyError(f"{path}.id duplicates rule id '{rule_id}'")
        match = matches.parse(required(raw, "match", path), f"{path}.match")
        route_to = _listed(raw, "route_to", path, candidates, names)
        outputs = raw.get("outputs", {})
        if not is_object(outputs):
            raise PolicyError(f"{path}.outputs must be an object")
        rules[rule_id] = Rule(rule_id, match, route_to, outputs)
    return tuple(rules.values())
