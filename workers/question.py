"""The one question that is asked of a model: what kind of answer does this request need?

The order of the criteria is part of the question: another order shifts the answers by several per cent.
A long document is never asked about, its length decides.
"""

# Source: laya/route.cpp of the 1bit engine, variant 0, without the label it removes before asking.
INSTRUCTIONS = "What kind of answer does this request need?"
CRITERIA: dict[str, str] = {
    "code": "source code, a script, a fix to a program, or an explanation of code",
    "prose": "several paragraphs of explanation, writing, advice or a story",
    "short": "one word, one number or one sentence",
}
QUESTION_ID = "cls"
WARM_UP = "What is the capital of Norway?"  # asked by nobody; what it costs is paid before the first request
