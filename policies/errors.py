"""What this package raises. Faults of a table are `policies.table.TableError`."""


class PolicyError(Exception):
    """A policy is refused; `str(error)` is the text that a client of Lemonade would get.

    Attributes:
        text: That text. It names the place where one place is at fault.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class RequestError(Exception):
    """A request cannot be looked at, because a field that routing reads has a wrong type.

    A server gives up routing for such a request; it does not refuse the policy.
    """
