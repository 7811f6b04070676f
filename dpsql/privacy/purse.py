"""What a release may still ask: the charge, less what was asked.

Everything that reaches it comes from a mechanism and is not believed: a share is a positive fraction, its kind one that
the charge was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy.distributions import Kind, kinds


class Purse:
    """One charge.

    Attributes:
        rho: not yet debited, exact.
        gdp: g not yet debited, exact.
        pure: ε not yet debited of a charge for pure ε-DP, exact; None for one by ρ and g only.
        kinds: of the questions that it was made for.
        failure: the probability that a discovery of values may still fail with.
    """

    def __init__(
        self,
        rho: Fraction,
        gdp: Fraction,
        pure: Fraction | None,
        only: Sequence[Kind] | None = None,
        failure: float = 0.0,
    ) -> None:
        """The charge; `only` are the kinds that it was made for, None for all that there are."""
        self.rho, self.gdp, self.pure, self.failure = rho, gdp, pure, failure
        self.kinds = kinds() if only is None else tuple(only)

    def take(self, kind: Kind, shares: Sequence[Fraction], failure: float = 0.0) -> None:
        """Take the shares of questions of one kind off what remains, or refuse them all.

        Raises:
            InvalidArgument: a kind that was not declared.
            InsufficientBudget: they are more than what remains.
        """
        if not any(kind is own for own in self.kinds):
            raise InvalidArgument(
                f"the mechanism asks a question of kind {kind}, but declared {', '.join(map(repr, self.kinds))} "
                "only: its questions(…) says which kinds it asks"
            )
        total_share = sum(shares, Fraction(0))
        dear = total_share * kind.gdp
        accounts = [("ρ", total_share, self.rho), ("g", dear, self.gdp)]
        pure = Fraction(0)
        if self.pure is not None:
            pure = sum(map(kind.epsilon, shares), Fraction(0))
            accounts.append(("ε", pure, self.pure))
        for name, cost, left in accounts:
            if cost > left:
                raise InsufficientBudget(
                    f"the mechanism asks for {name} = {float(cost):.6g}, of its charge {float(left):.6g} is left"
                )
        if not 0 <= failure <= self.failure:  # NaN too
            raise InsufficientBudget(
                f"the mechanism asks to fail with probability {failure!r}, of its charge {self.failure!r} is left"
            )
        self.rho -= total_share
        self.gdp -= dear
        self.failure -= failure
        if self.pure is not None:
            self.pure -= pure
