"""The release card: a record of tier 3 of the OpenDP Deployments Registry, filled in from what is released.

    basic             what it is, by whom          stated by the publisher, but for the name, the kind and the date
    dp_variant        which guarantee, of what     the domain is public, or was paid for
    privacy_loss      unit and parameters
    deployment_model  who is trusted               one release of a central curator
    implementation    mechanisms, composition, post-processing, utility
    administrative    a draft until all that only the publisher knows is stated

`card_schema.json` is the schema of it, rewritten from the documentation of the registry's records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypedDict

from dpsql.books.releases.releases import Entry
from dpsql.core.digits import up
from dpsql.core.domain import Attribute
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.promised import bound, excess_words
from dpsql.report.facts import Facts, counted_rows

OPEN: Final = "To be stated by the publisher."
"""What stands where only the publisher knows."""
_SUFFIXES: Final = (".json", ".yaml", ".yml", ".md")
_KINDS: Final = {
    "curator_type": ("Government", "Industry", "Nonprofit"),
    "sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
}
_LISTED: Final = 12
"""Values of a column that a card names."""


class Stated(TypedDict, total=False):
    """What only the publisher of a release knows.

    Attributes:
        name: of the data product.
        curator: who publishes it.
        curator_type: 'Government', 'Industry' or 'Nonprofit'.
        description: of the data product.
        intended_use: of it.
        region: that the data describe, or whose laws apply.
        sector: 'Technology', 'Healthcare', 'Education', 'Government', 'Energy' or 'Finance'.
        justification: why these choices were made.
        authors: of the record.
    """

    name: str
    curator: str
    curator_type: str
    description: str
    intended_use: str
    region: str
    sector: str
    justification: str
    authors: Sequence[str]


class Card(dict[str, Any]):
    """A release card: a dict that writes itself."""

    @property
    def json(self) -> str:
        """As JSON."""
        return json.dumps(self, ensure_ascii=False, indent=2) + "\n"

    @property
    def yaml(self) -> str:
        """As YAML.

        Raises:
            DpsqlError: PyYAML is not installed.
        """
        try:
            import yaml
        except ImportError:
            raise DpsqlError(
                "a card as YAML needs pyyaml, which is not installed: pip install pyyaml, or take json"
            ) from None
        text: str = yaml.safe_dump(dict(self), sort_keys=False, allow_unicode=True, width=100)
        return text

    @property
    def md(self) -> str:
        """As Markdown for a data catalogue: a table for each part."""
        deployment = self["deployment"]
        lines = [f"# {_plain(deployment['basic']['name'])}", "", _plain(deployment["implementation"]["utility"])]
        for part, fields in deployment.items():
            lines += ["", f"## {_title(part)}", "", "| | |", "|---|---|"]
            lines += [f"| {_title(name)} | {_plain(_words(value))} |" for name, value in fields.items()]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write it to a .json, .yaml or .md file.

        Raises:
            InvalidArgument: the file is of another kind.
            DpsqlError: it cannot be written.
        """
        target = Path(path)
        check_path(target)
        text = {".json": lambda: self.json, ".md": lambda: self.md}.get(target.suffix, lambda: self.yaml)()
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DpsqlError(f"the card cannot be written to {str(path)!r}: {error.strerror}") from None


def check_path(path: Path) -> None:
    """Refuse a file whose kind a card has not.

    Raises:
        InvalidArgument: it is of another kind.
    """
    if path.suffix not in _SUFFIXES:
        raise InvalidArgument(f"card is {str(path)!r}: give a .json, .yaml or .md file")


def schema() -> dict[str, Any]:
    """The JSON schema of a card.

    >>> schema()["title"]
    'Release card'
    """
    parsed_schema: dict[str, Any] = json.loads(
        files("dpsql.report").joinpath("card_schema.json").read_text(encoding="utf-8")
    )
    return parsed_schema


def card_of(facts: Facts, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a release.

    Args:
        facts: what is known of it.
        stated: see `Stated`.

    Raises:
        InvalidArgument: something is stated that there is not, or of no known kind.
    """
    for name, value in stated.items():
        if name not in Stated.__annotations__:
            raise InvalidArgument(f"{name} is nothing that a card states: give {', '.join(Stated.__annotations__)}")
        if value is not None and name in _KINDS and value not in _KINDS[name]:
            raise InvalidArgument(f"{name} is {value!r}: give {', '.join(_KINDS[name])}")
    statements = {name: value for name, value in stated.items() if value}
    open_ = {*Stated.__annotations__} - {*statements, "name", "description"}
    entry = facts.entry
    slug = re.sub(r"[^a-z0-9]+", "-", f"{entry.source}-release-{entry.number}-{facts.at:%Y}".lower()).strip("-")
    return {
        "url_slug": slug,
        "deployment": {
            "basic": _basic(facts, statements),
            "dp_variant": _variant(facts),
            "privacy_loss": _loss(facts),
            "deployment_model": _model(facts),
            "implementation": _implementation(facts, statements),
            "administrative": {
                "status": "Draft" if open_ else "Pending",
                "registry_authors": list(statements.get("authors", [OPEN])),
                "tier": 3,
            },
        },
    }


def _basic(facts: Facts, statements: Mapping[str, Any]) -> dict[str, Any]:
    entry = facts.entry
    curator = {"data_curator_name": statements.get("curator", OPEN)}
    if "curator_type" in statements:
        curator["data_curator_type"] = statements["curator_type"]
    what = f"A synthetic table of {entry.rows:,} rows and {len(entry.columns)} columns"
    if facts.tree is not None:
        what = f"Linked synthetic tables: {_rows_words(facts)}"
    made = f"{what}, drawn from differentially private counts of {', '.join(facts.rows)}."
    record = {
        "name": statements.get("name", f"Synthetic {entry.source}, release {entry.number}"),
        "data_curators": [curator],
        "description": statements.get("description", made),
        "intended_use": statements.get("intended_use", OPEN),
        "data_product_type": "Synthetic data",
        "data_product_region": statements.get("region", OPEN),
        "publication_date": f"{facts.at:%Y-%m-%d}",
    }
    return record | ({"data_product_sector": statements["sector"]} if "sector" in statements else {})


def _variant(facts: Facts) -> dict[str, str]:
    entry = facts.entry
    public = ["The domains of the columns (see data_domain) are public facts that the owner declared"]
    discovered = [attribute.name for attribute in facts.attributes if attribute.origin == "discovered"]
    if discovered:
        public[0] += f", but those of {', '.join(discovered)}, which were discovered with noise and charged"
    if entry.looked:
        public[0] += (
            f", but those of {', '.join(entry.looked)}, which the owner read off the rows and discloses: the guarantee "
            "does not cover them"
        )
    if entry.looked_facts:
        public.append(f"The owner read off the rows, and discloses, that every row has: {_joined(entry.looked_facts)}")
    if facts.entry.neighbours.total_is_public:
        public.append("The number of rows is public, because a neighbour has as many")
    declared = [fact for fact in facts.constraints if fact not in entry.looked_facts]
    if declared:
        public.append(f"The owner declared that every row has: {_joined(declared)}")
    if facts.imposed:
        public.append(f"Imposed on the synthetic rows, whatever the real ones are: {_joined(facts.imposed)}")
    return {
        "variant_name": "Pure DP" if facts.delta == 0 else "Approximate DP",
        "data_domain": f"Tables with the columns: {'; '.join(_domain_words(facts))}.",
        "unprotected_quantities": ". ".join(public) + ".",
    }


def _rows_words(facts: Facts) -> str:
    """How many rows there are: of linked tables, of each."""
    if facts.tree is None:
        return f"{facts.entry.rows:,} rows"
    return ", ".join(f"{rows:,} rows of {table}" for table, rows in facts.rows.items())


def _joined(predicates: Sequence[str]) -> str:
    return "; ".join(predicates)


def _domain_words(facts: Facts) -> list[str]:
    """Each column and its domain, in words."""
    return [
        *(f"{facts.words(attribute.name)} ({_values_words(attribute)})" for attribute in facts.attributes),
        *(f"{name} (excluded: NULL in every synthetic row)" for name in facts.excluded),
        *(f"{words} (not measured, but computed in each synthetic row)" for words in facts.computed),
    ]


def _values_words(attribute: Attribute) -> str:
    if attribute.kind == "bins":
        words = f"{attribute.edges[0]} to {attribute.edges[-1]} in {attribute.regular} bins"
    else:
        words = ", ".join(attribute.values[:_LISTED])
        more = attribute.regular - _LISTED
        words += f" and {more:,} more values" if more > 0 else ""
    return words + (", NULL" if attribute.nullable else "")


def _loss(facts: Facts) -> dict[str, Any]:
    entry, unit = facts.entry, facts.account.unit_column
    total = facts.judgement.total
    below = (
        "" if facts.tree is None or entry.neighbours.whole else f", with all its rows in {', '.join([*facts.rows][1:])}"
    )
    loss: dict[str, Any] = {
        "privacy_unit": f"One row of {entry.source}{below}" if unit is None else f"All rows with the same {unit}",
        "privacy_unit_details": f"Adjacent tables differ by {entry.neighbours.words}{below}.",
    }
    if total is not None and (unit is None or entry.neighbours.whole):
        reach = facts.judgement.total_reach
        loss["number_of_privacy_units"] = (
            f"About {max(0.0, total):,.0f} by noisy counts; the 95 % interval is {max(0.0, total - reach):,.0f} to "
            f"{max(0.0, total + reach):,.0f}."
        )
    parameters = {"epsilon": facts.epsilon} | ({"delta": facts.delta} if facts.delta else {})
    return loss | {
        "privacy_parameters": parameters,
        "privacy_parameters_details": " ".join(_loss_words(entry)),
    }


def _loss_words(entry: Entry) -> list[str]:
    """What the numbers of the promise mean, a sentence each."""
    meaning = f"If {entry.neighbours.change}, {bound(entry.epsilon, entry.delta)}."
    likely = [excess_words(entry.budget)] if entry.gdp == entry.rho else []
    return [f"{entry.guarantee}.", meaning, *likely, f"It is {up(entry.rho)}-zCDP, too."]


def _model(facts: Facts) -> dict[str, str]:
    account = facts.account
    return {
        "model_name": "Central",
        "model_name_details": "The owner of the table runs dpsql where the rows are; only the release leaves.",
        "trust_assumptions": (
            "The owner and whoever can read the database file or the memory of the process are trusted. Whoever reads "
            "the release is not, whatever else they know and compute."
        ),
        "actors": "The owner, who declares what is public and how much may be spent; the readers of the release.",
        "release_type": "One release",
        "release_type_details": (
            f"All releases of the table together keep epsilon = {up(account.epsilon)} at delta = "
            f"{up(account.delta)}; {account.spent_words} is spent in {account.releases} so far."
        ),
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "The synthetic rows and the noisy counts are published; queries of them cost nothing.",
    }


def _implementation(facts: Facts, statements: Mapping[str, Any]) -> dict[str, str]:
    entry = facts.entry
    measured = ", ".join(f"{number:,} of {order}" for order, number in facts.marginals.items())
    marginals = f"Marginals measured, by their number of columns: {measured}. " if measured else ""
    noise = f"Integer noise ({', '.join(facts.noise)}) drawn exactly from the operating system's entropy. " * bool(
        facts.noise
    )
    limit = ""
    looked = " But the owner looked at the rows to declare what unprotected_quantities names." * bool(
        entry.looked or entry.looked_facts
    )
    if facts.account.unit_column is not None:
        chosen = "; these two are" if entry.neighbours.whole else ","
        limit = f" Of each {facts.account.unit_column} {counted_rows(entry.neighbours)}{chosen} chosen at random."
    return {
        "preprocessing_and_hyperparameter_tuning": (
            "Values are mapped to the cells of the declared domains, one cell for NULL and one for what lies outside."
            f"{limit} The mechanism adapts to noisy counts that were paid for, and to nothing else of the rows.{looked}"
        ),
        "mechanisms": (
            f"{marginals}{noise}Mechanism {entry.mechanism} of dpsql {facts.version}. Counts, noise and noisy "
            "answers are whole numbers, so no floating-point error can reveal a value."
        ),
        "composition": (
            "The questions of a release compose by zero-concentrated or Gaussian DP, or by the sum of epsilon where "
            "the promise is pure. The ledger charges a release before any row is read."
        ),
        "post_processing": (
            f"A distribution is fitted to the noisy counts and {_rows_words(facts)} are drawn from it. That reads no "
            "private row."
        ),
        "justification": statements.get("justification", OPEN),
        "utility": str(facts.verdict),
        "additional_information": f"Release {entry.number}, key {entry.key}.",
    }


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _title(name: str) -> str:
    text = name.replace("_", " ").capitalize()
    return text.replace("Dp ", "DP ")


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name.removeprefix('data_curator_')} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return str(value)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    shown = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#])", r"\\\1", shown)
