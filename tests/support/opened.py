"""What is opened by `with`: programs that are ended again also where their start fails."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Opened(ABC):
    """A context manager of something that is opened and closed."""

    @abstractmethod
    def open(self) -> None:
        """Start it and wait until it serves."""

    @abstractmethod
    def close(self) -> None:
        """End what was started, however far that came."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
