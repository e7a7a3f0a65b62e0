"""What a prompt is made of: texts only, and no more of them than fit. Pure."""

from policies.shape import is_array, is_object
from workers.job import JobError


def refuse_what_is_no_text(content: object) -> None:
    """Refuse a part that would be left out: a row may say that it sees, by a file that is not used here.

    Raises:
        JobError: 400, naming its type.
    """
    for part in content if is_array(content) else ():
        kind = part.get("type", "text") if is_object(part) else "text"
        if kind != "text":
            message = f"The engine llama-cpp-python reads texts only, and no '{kind}'."
            raise JobError(400, "unsupported_field", message, {"param": "messages"})


def plain_text(content: object) -> str:
    """Return a message's content as text: text parts joined by newline, nothing for None."""
    if is_array(content):
        return "\n".join(str(p.get("text", "")) for p in content if is_object(p))
    return content if isinstance(content, str) else ""


def too_long(
    n_prompt_tokens: int, n_ctx: int, param: str = "messages", *, counted: str = ""
) -> JobError:
    """Return the refusal of a prompt that does not fit."""
    message = (
        f"This model's context length is {n_ctx} tokens, and the prompt has {counted}{n_prompt_tokens}. "
        "Shorten the prompt, or name a model with a longer context."
    )
    facts: dict[str, str | int | float | bool | None] = {
        "n_prompt_tokens": n_prompt_tokens,
        "n_prompt_tokens_is_a_lower_bound": counted != "",
        "n_ctx": n_ctx,
        "param": param,
    }
    return JobError(400, "context_length_exceeded", message, facts)
