"""What names mean: rows that can be asked for, collections that route, aliases to either."""

from msgspec import Struct, structs

from policies.row import OnBusy
from policies.table import Table


class RowFacts(Struct, frozen=True, kw_only=True):
    """What the core must know of one row: where it runs and what it can serve."""

    model: str
    device: str  # kind of device: hrx, npu, cpu
    type: str = "llm"
    ctx: int  # context length in tokens, prompt and answer together
    slots: int = 1  # requests that one load serves at once
    pinned: bool = False  # never evicted
    ttl_s: float | None = None  # idle seconds after which it is unloaded
    tools: bool = False
    images: bool = False
    json_schema: bool = False
    max_tokens: int | None = None  # answer length assumed where the request names none


class Catalogue(Struct, frozen=True, kw_only=True):
    """One version of the table as the core sees it."""

    rows: dict[str, RowFacts]  # model name -> row
    collections: dict[str, str]  # router collection -> its default model
    aliases: dict[str, str]  # name -> row or collection
    fallbacks: dict[
        str, str
    ] = {}  # class -> row that stands in when the class's own cannot be used
    classes: dict[str, str] = {}  # class -> its row
    pull_budget_s: float = 600.0  # seconds that a request waits for a pull, in all
    on_busy: dict[str, OnBusy] = {}  # class -> when it starts on the NPU instead
    shipped: frozenset[str] = (
        frozenset()
    )  # collections of the table, which no registration replaces
    slow: frozenset[str] = frozenset()  # collections whose decisions call models
    version: int = 1  # grows with every change

    def row(self, name: str) -> RowFacts | None:
        """Return the row an explicit name means, or None."""
        return self.rows.get(self.aliases.get(name, name))

    def default_of(self, name: str) -> str | None:
        """Return the default model of the router collection a name means, or None."""
        return self.collections.get(self.aliases.get(name, name))

    def is_slow(self, name: str) -> bool:
        """Return whether deciding for a name may take model calls."""
        return self.aliases.get(name, name) in self.slow

    def is_shipped(self, name: str) -> bool:
        """Return whether a name means the table's own collection."""
        return self.aliases.get(name, name) in self.shipped

    def with_users(self, collections: dict[str, str], slow: list[str]) -> "Catalogue":
        """Return the next version, with these registered policies instead of the ones before."""
        own = {k: v for k, v in self.collections.items() if k in self.shipped}
        return structs.replace(
            self,
            collections={**collections, **own},
            slow=frozenset(slow) - self.shipped,
            version=self.version + 1,
        )


def from_table(table: Table, *, collection: str, aliases: dict[str, str]) -> Catalogue:
    """Return the catalogue of a parsed table.

    Args:
        table: A table that passed its check.
        collection: Name under which the table routes, `user.Laya-First`.
        aliases: Further names, such as `auto` for the collection.
    """
    rows = {
        name: RowFacts(
            model=name,
            device=row.device,
            type=row.type,
            ctx=row.ctx,
            slots=row.slots,
            pinned=row.pinned,
            ttl_s=row.ttl_s,
            tools=row.tools,
            images=row.vision,
            json_schema=row.json_schema,
            max_tokens=row.max_tokens,
        )
        for name, row in table.rows.items()
    }
    return Catalogue(
        rows=rows,
        collections={collection: table.default_model},
        aliases=aliases,
        classes={n: c.model for n, c in table.classes.items()},
        pull_budget_s=table.pull_budget_s,
        fallbacks={n: c.fallback for n, c in table.classes.items() if c.fallback is not None},
        on_busy={n: c.on_busy for n, c in table.classes.items() if c.on_busy is not None},
        shipped=frozenset({collection}),
    )
