"""Figures that every reply has, kept as sums: they cost the same however many labels there are."""

from everylabel.labelling.ledger import Ledger
from everylabel.labelling.records import Tally


def tally_of(ledger: Ledger, item: int | None) -> Tally:
    """Return what one item adds to the sums."""
    if item is None:
        return Tally()
    answered, labelled = item in ledger.answers, item in ledger.labels
    checked = item in ledger.checked
    return Tally(
        checks=_drawn(ledger, item) if labelled else 0,
        unanswered=int(checked and not labelled and item not in ledger.holder and not ledger.lost(item)),
        by_model=int(item in ledger.finished and not answered),
        skipped=int(item in ledger.skipped and not answered),
        tested=int(answered and item in ledger.test),
    )


def tally_all(ledger: Ledger) -> Tally:
    """Return the sums over all items, from the beginning."""
    known = {*ledger.answers, *ledger.checked, *ledger.finished, *ledger.skipped, *ledger.test}
    return Tally(*map(sum, zip(Tally(), *(tally_of(ledger, item) for item in known), strict=True)))


def moved(total: Tally, before: Tally, now: Tally) -> Tally:
    """Return the sums after an item that added `before` adds `now`."""
    if before == now:
        return total
    return Tally(*(t - b + n for t, b, n in zip(total, before, now, strict=True)))


def _drawn(ledger: Ledger, item: int) -> int:
    """Return how many random checks of an item stand that were drawn among all that was free."""
    record = ledger.history
    checks = (ledger.checks.get(record.seq[place]) for place in record.places(item))
    return sum(check is not None and check.among is None for check in checks)
