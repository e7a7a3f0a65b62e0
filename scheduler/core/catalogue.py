"""What names mean: rows that can be asked for, collections that route, aliases to either."""

from msgspec import Struct

from policies.table import Table


class RowFacts(Struct, frozen=True, kw_only=True):
    """What the core must know of one row: where it runs and what it can serve."""

    model: str
    device: str  # kind of device: hrx, npu
    ctx: int  # context length in tokens, prompt and answer together
    tools: bool = False
    images: bool = False
    json_schema: bool = False
    max_tokens: int | None = None  # answer length assumed where the request names none


class Catalogue(Struct, frozen=True, kw_only=True):
    """One version of the table as the core sees it."""

    rows: dict[str, RowFacts]  # model name -> row
    collections: dict[str, str]  # router collection -> its default model
    aliases: dict[str, str]  # name -> row or collection

    def row(self, name: str) -> RowFacts | None:
        """Return the row an explicit name means, or None."""
        return self.rows.get(self.aliases.get(name, name))

    def default_of(self, name: str) -> str | None:
        """Return the default model of the router collection a name means, or None."""
        return self.collections.get(self.aliases.get(name, name))


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
            ctx=row.ctx,
            tools=row.tools,
            images=row.vision,
            json_schema=row.json_schema,
            max_tokens=row.max_tokens,
        )
        for name, row in table.rows.items()
    }
    return Catalogue(rows=rows, collections={collection: table.default_model}, aliases=aliases)
