"""What a release may still ask: the charge, less what was asked.

Everything that reaches it comes from a mechanism and is not believed: a share is a positive fraction, its kind one that
the charge was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy.accounting import OTHER_PRICE, selection_rate
from dpsql.privacy.pricing import KINDS, Kind


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
        self, rho: Fraction, gdp: Fraction, pure: Fraction | None, kinds: Sequence[Kind] = KINDS, failure: float = 0.0
    ) -> None:
        self.rho, self.gdp, self.pure, self.kinds, self.failure = rho, gdp, pure, tuple(kinds), failure

    def take(self, kind: str, shares: Sequence[Fraction], failure: float = 0.0) -> None:
        """Take the shares of questions of one kind off what remains, or refuse them all.

        Raises:
            InvalidArgument: a kind that was not declared.
            InsufficientBudget: they are more than what remains.
        """
        if type(kind) is not str or kind not in self.kinds:
            raise InvalidArgument(
                f"the mechanism asks a question of kind {kind!r}, but declared {', '.join(map(repr, self.kinds))} "
                "only: its questions(…) says which kinds it asks"
            )
        asked = sum(shares, Fraction(0))
        dear = asked if kind == "gaussian" else asked * OTHER_PRICE
        accounts = [("ρ", asked, self.rho), ("g", dear, self.gdp)]
        pure = Fraction(0)
        if self.pure is not None:
            if kind == "gaussian":
                raise InvalidArgument("Gaussian noise proves no pure epsilon: ask for Laplace noise")
            each = 2 if kind == "selection" else 1  # a selection's range is twice its rate times Δ
            pure = sum((each * selection_rate(rho, 1) for rho in shares), Fraction(0))
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
        self.rho -= asked
        self.gdp -= dear
        self.failure -= failure
        if self.pure is not None:
            self.pure -= pure
