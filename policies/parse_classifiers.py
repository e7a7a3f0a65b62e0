"""Parsing `routing.classifiers`, in two passes as the contract has it.

The first pass reads every entry's common fields; the second builds them one by one by type. So a
fault in the last entry's model is reported before a fault in the first entry's labels.
"""

from collections.abc import Callable

from policies.document import (
    Classifier,
    Judge,
    Laya,
    ModelClassifier,
    OnError,
    Similarity,
)
from policies.errors import PolicyError
from policies.fields import filled, known_keys, required_text
from policies.shape import is_array, is_filled, is_object, wrong_type

CLASSIFIER_KEYS = frozenset(
    {
        "id",
        "type",
        "model",
        "prompt",
        "labels",
        "default_label",
        "reference_phrases",
        "on_error",
    }
)
RESERVED_TYPES = frozenset(
    {
        "pii_detection",
        "prompt_safety",
        "language_detection",
        "domain_classification",
        "complexity",
        "sentiment",
    }
)

Entry = dict[str, object]


def read_entries(
    routing: dict[str, object],
    component: Callable[[str, str], str],
    model_type: Callable[[str], str | None] | None,
) -> list[Entry]:
    """Read what all classifiers share.

    Args:
        routing: The `routing` object, its shorthand written out.
        component: Written name and path -> canonical name of a declared component.
        model_type: See `parse_policy`.

    Returns:
        The entries, each `model` replaced by its canonical name.
    """
    entries = routing.get("classifiers", [])
    if not is_array(entries):
        raise PolicyError("routing.classifiers must be an array")
    return [
        _read_entry(entry, f"routing.classifiers[{index}]", component, model_type)
        for index, entry in enumerate(entries)
    ]


def _read_entry(
    value: object,
    path: str,
    component: Callable[[str, str], str],
    model_type: Callable[[str], str | None] | None,
) -> Entry:
    entry = known_keys(value, CLASSIFIER_KEYS, path)
    required_text(entry, "id", path)
    kind = required_text(entry, "type", path)
    if "on_error" in entry:
        on_error = filled(entry["on_error"], f"{path}.on_error")
        if on_error not in {"match_true", "match_false"}:
            raise PolicyError(f"{path}.on_error must be match_true or match_false")
    if "model" not in entry:
        return entry
    name = filled(entry["model"], f"{path}.model")
    canonical = component(name, f"{path}.model")
    if model_type is not None:
        _check_type(kind, model_type(canonical), f"{path}.model '{name}'")
    return {**entry, "model": canonical}


def _check_type(kind: str, model_type: str | None, subject: str) -> None:
    if model_type is None:
        raise PolicyError(f"{subject} has an unresolvable type; cannot validate it as a '{kind}'")
    if kind == "classifier" and model_type not in {"llm", "classification"}:
        text = "cannot serve as a classifier (needs an LLM or classification model)"
        raise PolicyError(f"{subject} has type '{model_type}', which {text}")
    if kind == "semantic_similarity" and model_type != "embedding":
        text = "cannot serve semantic_similarity (needs an embedding model)"
        raise PolicyError(f"{subject} has type '{model_type}', which {text}")


def build_classifiers(entries: list[Entry]) -> dict[str, Classifier]:
    """Build the classifiers of the entries that `read_entries` returned, by id."""
    classifiers: dict[str, Classifier] = {}
    for entry in entries:
        classifier = _build(entry)
        if classifier.id in classifiers:
            raise PolicyError(f"duplicate classifier id: {classifier.id}")
        classifiers[classifier.id] = classifier
    return classifiers


def _build(entry: Entry) -> Classifier:
    kind = entry["type"]
    if kind == "classifier":
        return _model_classifier(entry)
    if kind == "semantic_similarity":
        return _similarity(entry)
    if kind == "llm":
        return _judge(entry)
    if kind == "laya":
        return _laya(entry)
    if kind in RESERVED_TYPES:
        raise PolicyError(f"classifier type not implemented yet: {kind}")
    raise PolicyError(f"unknown classifier type: {kind}")


def _model_classifier(entry: Entry) -> ModelClassifier:
    labels = _labels(entry)
    default = _default_label(entry, labels)
    return ModelClassifier(
        _id(entry), _model(entry, "classifier"), labels, default, _on_error(entry)
    )


def _similarity(entry: Entry) -> Similarity:
    subject = f"semantic_similarity classifier '{_id(entry)}'"
    if "labels" in entry:
        text = "does not accept labels; concept names are the reference_phrases keys"
        raise PolicyError(f"{subject} {text}")
    concepts = _concepts(entry, subject)
    default = _default_label(entry, tuple(name for name, _ in concepts))
    model = _model(entry, "semantic_similarity classifier")
    return Similarity(_id(entry), model, concepts, default, _on_error(entry))


def _concepts(entry: Entry, subject: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if "reference_phrases" not in entry:
        raise PolicyError(f"{subject} requires reference_phrases")
    phrases = entry["reference_phrases"]
    if not is_object(phrases) or not phrases:
        text = "reference_phrases must be a non-empty object mapping concept -> phrases"
        raise PolicyError(f"{subject} {text}")
    return tuple((name, _phrases(name, phrases[name], subject)) for name in sorted(phrases))


def _phrases(name: str, phrases: object, subject: str) -> tuple[str, ...]:
    if not name:
        raise PolicyError(f"{subject} has an empty concept name")
    if not is_array(phrases) or not phrases:
        text = f"concept '{name}' must have a non-empty array of reference phrases"
        raise PolicyError(f"{subject} {text}")
    texts = tuple(phrase for phrase in phrases if is_filled(phrase))
    if len(texts) != len(phrases):
        text = f"concept '{name}' reference phrases must be non-empty strings"
        raise PolicyError(f"{subject} {text}")
    return texts


def _judge(entry: Entry) -> Judge:
    labels = _labels(entry)
    default = _default_label(entry, labels)
    prompt = entry.get("prompt", "")
    if not isinstance(prompt, str):
        # The original reads it without looking, so its JSON library words the fault.
        raise PolicyError(wrong_type(prompt, "string"))
    model = _model(entry, "llm classifier")
    if not prompt:
        raise PolicyError("llm classifier requires prompt")
    if not labels:
        raise PolicyError("llm classifier requires at least one label (candidate)")
    return Judge(_id(entry), model, prompt, labels, default, _on_error(entry))


def _laya(entry: Entry) -> Laya:
    labels = _labels(entry)
    default = _default_label(entry, labels)
    if not labels:
        raise PolicyError("laya classifier requires at least one label")
    model = entry.get("model")
    return Laya(
        _id(entry), model if isinstance(model, str) else None, labels, default, _on_error(entry)
    )


def _id(entry: Entry) -> str:
    return str(entry["id"])


def _on_error(entry: Entry) -> OnError:
    return "match_true" if entry.get("on_error") == "match_true" else "match_false"


def _model(entry: Entry, subject: str) -> str:
    if "model" not in entry:
        raise PolicyError(f"{subject} requires model")
    return str(entry["model"])


def _labels(entry: Entry) -> tuple[str, ...]:
    labels = entry.get("labels", [])
    if not is_array(labels):
        raise PolicyError(f"classifier '{_id(entry)}' labels must be an array")
    texts = tuple(label for label in labels if is_filled(label))
    if len(texts) != len(labels):
        raise PolicyError(f"classifier '{_id(entry)}' labels must be non-empty strings")
    return texts


def _default_label(entry: Entry, labels: tuple[str, ...]) -> str | None:
    if "default_label" not in entry:
        return None
    label = entry["default_label"]
    subject = f"classifier '{_id(entry)}' default_label"
    if not is_filled(label):
        raise PolicyError(f"{subject} must be a non-empty string")
    if not labels:
        raise PolicyError(f"{subject} requires labels")
    if label not in labels:
        raise PolicyError(f"{subject} is not declared in labels")
    return label
