"""A second, naive reading of a policy: slow, direct, and written without a look at the first.

It works on the JSON as authored, knows nothing of parsing, remembers nothing between leaves, and
spells every rule of the contract as plainly as it can.
"""

import re
from typing import Any

# JSON as it was authored: this reader does without types on purpose.
Json = dict[str, Any]
# The patterns that it knows, each with Python's spelling of the same.
PATTERNS = {
    "a.b": rb"a[^\n\r]b",
    "^a": rb"\Aa",
    "b$": rb"b\Z",
    "[^a]": rb"[^a]",
    "(a|b){2}": rb"(?:a|b){2}",
    "(.)\\1": rb"([^\n\r])\1",
    "a(?!b)": rb"a(?!b)",
    "\\bab\\b": rb"(?<![A-Za-z0-9_])ab(?![A-Za-z0-9_])",
}


class Naive:
    """One policy, one request, and what the models would say."""

    def __init__(self, policy: Json, request: Json, scores: dict[str, dict[str, float] | None]):
        self.routing: Json = dict(policy["routing"])
        self.request = request
        self.scores = scores
        self.trace: list[Json] = []
        self.failed: list[str] = []

    def decide(self) -> Json:
        for rule in self.items("rules"):
            if self.holds(rule["match"]):
                return self.result(rule["route_to"], rule["id"], rule.get("outputs", {}))
        return self.result(self.routing["default_model"], "", {})

    def items(self, key: str) -> list[Json]:
        return list(self.routing.get(key, []))

    def result(self, route_to: object, rule: object, outputs: object) -> Json:
        made: Json = {"version": "1", "route_to": route_to, "matched_rule": rule}
        made |= {"default_used": rule == "", "outputs": outputs}
        return made | ({"trace": self.trace} if self.trace else {})

    def holds(self, match: Json) -> bool:
        if "all" in match:
            return all(self.holds(child) for child in match["all"])
        if "any" in match:
            return any(self.holds(child) for child in match["any"])
        if "not" in match:
            return not self.holds(match["not"])
        if "classifier" in match and not self.band(match):
            return False
        return self.others(match)

    def others(self, match: Json) -> bool:
        for key in sorted(set(match) - {"classifier", "label", "min_score", "max_score"}):
            result = self.plain(key, match[key])
            self.trace.append({"condition": key, "result": result})
            if not result:
                return False
        return True

    def band(self, match: Json) -> bool:
        name = str(match["classifier"])
        kind = next(item for item in self.items("classifiers") if item["id"] == name)
        entry: Json = {"condition": f"classifier:{name}"}
        if "label" in match:
            entry["label"] = match["label"]
        scores = self.scores[name]
        if scores is None:
            entry["result"] = kind.get("on_error", "match_false") == "match_true"
            self.failed += [] if name in self.failed else [name]
        else:
            label = match.get("label", kind.get("default_label"))
            lone = next(iter(scores.values())) if len(scores) == 1 else 0.0
            score = lone if label is None else scores.get(str(label), 0.0)
            default = 0.5 if "max_score" not in match else -1.0
            low, high = match.get("min_score", default), match.get("max_score", 2.0)
            entry["score"] = score
            entry["result"] = low <= score <= high
        self.trace.append(entry)
        return bool(entry["result"])

    def texts(self) -> list[tuple[str, str]]:
        messages: list[Json] = list(self.request["messages"])
        return [(str(message["role"]), str(message["content"])) for message in messages]

    def plain(self, key: str, value: Any) -> bool:
        turns = [text for role, text in self.texts() if role == "user"]
        text = (turns[-1] if turns else "").encode()
        total = sum(len(said.encode()) for _, said in self.texts())
        if key == "has_tools":
            return bool(self.request.get("tools")) is bool(value)
        if key == "has_images":
            return value is False
        if key == "regex":
            return re.search(PATTERNS[str(value)], text) is not None
        if key == "metadata":
            return self.metadata(value)
        if key.startswith("keywords"):
            found = [fold(word.encode()) in fold(text) for word in value]
            return all(found) if key == "keywords_all" else any(found)
        length = total if "total" in key else len(text)
        return length >= int(str(value)) if key[:3] == "min" else length <= int(str(value))

    def metadata(self, spec: Json) -> bool:
        held: Json = dict(self.request.get("metadata", {}))
        value = str(held.get(str(spec["key"]), ""))
        present = any(char not in " \t\r\n" for char in value)
        if "exists" in spec:
            return present is spec["exists"]
        if "equals" in spec:
            return present and value == spec["equals"]
        wanted = list(spec["any"])
        return any(item.strip(" \t\r\n") in wanted for item in value.split(","))


def fold(data: bytes) -> bytes:
    return bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in data)
