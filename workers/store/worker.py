"""The store worker: pulls beside the loop, policies of users, and what there is of both."""

from pathlib import Path

from scheduler.settings import Store as Conf
from scheduler.wire.catalogue import CatalogueBody
from workers.runner import Tell
from workers.session import Judge
from workers.store.policies import Policies
from workers.store.pulls import Pulls


class Store:
    """The helper of kind `store`."""

    def __init__(self, policies: Path, conf: Conf) -> None:
        """Read the policies; the models directory is looked at when the table is known.

        Args:
            policies: Directory of the users' policies.
            conf: The store's settings.
        """
        self._policies = Policies(policies)
        self._pulls = Pulls(Path(conf.dir), conf)
        self._tell: Tell | None = None

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the table, and say which of its rows are here."""
        table = body.parsed()
        self._policies.learn(table)
        self._pulls.learn(table)
        if self._tell is not None:
            self._pulls.tell_changes(self._tell)

    def joined(self, tell: Tell) -> None:
        """Tell the broker what there is."""
        self._tell = tell
        self._policies.tell(tell)
        self._pulls.tell_all(tell)

    def backend(self) -> str:
        """Return nothing: it is as registered."""
        return ""

    def begin(self, question: Judge, tell: Tell) -> None:
        """Register a policy."""
        self._policies.register(question, tell)

    def fetch(self, model: str, tell: Tell) -> None:
        """Bring a row of the table here."""
        self._pulls.fetch(model, tell)

    def close(self) -> None:
        """Look at files no more; what is on its way ends with the process."""
        self._pulls.close()
