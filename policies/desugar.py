"""Desugaring: the laya-first table as the `collection.router` policy that carries it out.

The same table gives the same bytes, so a registered policy can be compared with its table.
"""

import json

from policies.table import CLASSES, Table

# Lemonade registers no definition outside `user.*`.
POLICY_NAME = "user.Laya-First"

# The classifier reports only the class that it chose, so every other label scores exactly 0.0.
# The floor lies above that, or the first rule would take every request; and far below the usual
# 0.5, because a choice among three carries little confidence and still stands.
FLOOR = 0.01

# From the most telling class to the one that is never asked for; one rule matches at most.
RULE_ORDER = ("code", "prose", "short", "long_doc")


def to_policy(table: Table) -> dict[str, object]:
    """Return the policy of a table as builtins, keys in their written order.

    Components are the default and the classes' rows: what a rule can route to. Second rows are
    reached by placement and fall-back, which no policy knows.
    """
    models = [table.default_model, *(entry.model for entry in table.classes.values())]
    components = list(dict.fromkeys(models))
    return {
        "version": "1",
        "model_name": POLICY_NAME,
        "recipe": "collection.router",
        "components": components,
        "routing": {
            "candidates": list(components),
            "default_model": table.default_model,
            "classifiers": [{"id": "laya", "type": "laya", "labels": list(CLASSES)}],
            "rules": _rules(table),
        },
    }


def to_text(table: Table) -> str:
    """Return the policy of a table as JSON: indented by 2, one newline at the end."""
    return json.dumps(to_policy(table), ensure_ascii=False, indent=2) + "\n"


def _rules(table: Table) -> list[dict[str, object]]:
    rules: list[dict[str, object]] = []
    if table.tools is not None:
        # Ahead of the classes: an agent's "fix it" is no short question.
        model = table.classes[table.tools].model
        rules.append({"id": "agent-tools", "match": {"has_tools": True}, "route_to": model})
    for name in RULE_ORDER:
        match = {"classifier": "laya", "label": name, "min_score": FLOOR}
        model = table.classes[name].model
        rules.append({"id": f"laya-{name}", "match": match, "route_to": model})
    return rules
