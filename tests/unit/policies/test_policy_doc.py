"""The generated parts of POLICY.md are what the code says."""

from support.policy_doc import DOCUMENT, rewritten


def test_the_document_is_up_to_date() -> None:
    # To write it anew: DOCUMENT.write_text(rewritten(DOCUMENT.read_text())).
    text = DOCUMENT.read_text(encoding="utf-8")
    assert rewritten(text) == text
