"""The options of `ide`, checked, and what they say of a domain: the region, the groups, the other columns.

`dpsql.mechanisms.ide.ide` says what each option means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dpsql.core.arguments import check_range, check_word, checked_names
from dpsql.core.domain import Clique, Domain
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.fitting.rows.iterative_estimation import TIES
from dpsql.mechanisms.base import LATER, Mechanism
from dpsql.mechanisms.ide.support import REACHES, most_rows
from dpsql.privacy.distributions import LAPLACE, noise_names

MOST_SUPPORT: Final = 100_000_000
METHODS: Final = ("iterations", "exact")
TOTALS: Final = ("consistent", "paper")


@dataclass(frozen=True)
class Options(Mechanism):
    """See `dpsql.mechanisms.ide.ide.IDE`, which is the mechanism with these options."""

    takes_prior = True
    needs_prior = True
    noise: str = LAPLACE.name
    marginals: int | None = None
    iterations: int | None = None
    ties: str = "prior"
    region: str | None = None
    group_by: tuple[str, ...] | None = None
    group_marginals: int | None = None
    group_prior: bool = True
    copies: int = 10
    max_cells: int = 100_000
    support: int = 5_000_000
    reach: str = field(default="prior", metadata=LATER)
    clear: float | None = field(default=None, metadata=LATER)
    method: str = field(default="iterations", metadata=LATER)
    seconds: float = field(default=60.0, metadata=LATER)
    passes: int = field(default=10, metadata=LATER)
    totals: str = field(default="consistent", metadata=LATER)

    def __post_init__(self) -> None:
        """Check the options."""
        for name, most in (("marginals", 10_000), ("iterations", 1_000_000), ("group_marginals", 10_000)):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1, most)
        check_range("copies", self.copies, 1, 1000)
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("support", self.support, 1000, MOST_SUPPORT)
        check_range("passes", self.passes, 1, 1000)
        choices = {"noise": noise_names(), "ties": TIES, "reach": REACHES, "method": METHODS, "totals": TOTALS}
        for name, words in choices.items():
            check_word(name, getattr(self, name), words)
        if self.clear is not None:
            check_range("clear", self.clear, 0, 100)
        check_range("seconds", self.seconds, 0.1, 86_400)
        self._check_together()
        if self.group_marginals is not None and self.group_by is None:
            raise InvalidArgument(f"group_marginals is {self.group_marginals}, but there are no groups: give group_by")
        if self.group_by is not None:
            object.__setattr__(self, "group_by", checked_names("group_by", self.group_by))

    def _check_together(self) -> None:
        """Refuse options that go with Algorithm 1, or with the other method, only."""
        alone = {"reach": self.reach != "prior", "clear": self.clear is not None, "method": self.method == "exact"}
        for name, is_given in alone.items():
            if is_given and (self.region is not None or self.group_by is not None):
                raise InvalidArgument(
                    f"{name} is {getattr(self, name)!r}, which goes without region and group_by: leave it out"
                )
            if is_given and name != "method" and self.method == "exact":
                raise InvalidArgument(
                    f"{name} is {getattr(self, name)!r}, but method is 'exact', which meets all cells on the prior's "
                    "rows: leave one of them out"
                )

    def rows_of(self, domain: Domain) -> int:
        """The most rows of the prior that are kept, for each region or group."""
        return most_rows(self.support // domain.size(self.keys_of(domain)), exact=self.method == "exact")

    def region_of(self, domain: Domain) -> Clique:
        """The region's column."""
        return (domain.find(self.region),) if self.region is not None else ()

    def keys_of(self, domain: Domain) -> Clique:
        """The region's and the groups' columns."""
        return domain.clique([*self.region_of(domain), *(self.group_by or ())])

    def features_of(self, domain: Domain) -> Clique:
        """The other columns."""
        keys = set(self.keys_of(domain))
        return tuple(name for name in domain.names if name not in keys)

    def own_marginals(self, domain: Domain, workload: Workload) -> tuple[Clique, ...]:
        """The workload's marginals where they are measured themselves, without groups; else none."""
        limit = self.marginals or len(domain)
        fits = len(workload.needed) <= limit and all(domain.size(c) <= self.max_cells for c in workload.needed)
        return workload.needed if fits and not self.keys_of(domain) else ()
