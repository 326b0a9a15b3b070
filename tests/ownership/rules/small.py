"""One root and a device below it: snapshots, answers and ledgers in a line each."""

from collections.abc import Iterable

from agent.ownership.answers import Answer, Answers, Reported, owner_of
from agent.ownership.ledger import Ledger
from agent.ownership.policy import AttachedPolicy, Policy
from reportclient.model import Inventory, Provider
from reportclient.provider_tree import Claims, ProviderTree
from reportclient.snapshot import Snapshot

ROOT, DEVICE = "c0ffee00-0000-4000-8000-000000000001", "c0ffee00-0000-4000-8000-000000000002"
ONE, TWO = "driver:one", "driver:two"
OWN, ATTACHED = Policy(ROOT), AttachedPolicy(ROOT)


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def root(total: int = 0, traits: str = "") -> Provider:
    inventory = {"VCPU": Inventory(total).with_defaults(None)} if total else {}
    return Provider(ROOT, "host", None, inventory, names(traits))


def device(total: int = 0, traits: str = "", name: str = "device") -> Provider:
    inventory = {"VCPU": Inventory(total).with_defaults(None)} if total else {}
    return Provider(DEVICE, name, ROOT, inventory, names(traits))


def there(*providers: Provider) -> Snapshot:
    return Snapshot.build(providers)


def claim(classes: str = "", traits: str = "", *, provider: bool = False) -> Claims:
    return Claims(provider, names(classes), names(traits))


def kept(*rows: tuple[str, str, Claims]) -> Ledger:
    """Rows are owners, providers and claims."""
    ledger = Ledger(known=True)
    for owner, uuid, held in rows:
        ledger = ledger.adding(owner, uuid, held)
    return ledger


def of_one(base: Snapshot, ledger: Ledger) -> ProviderTree:
    """The tree that the driver ``ONE`` edits."""
    return ProviderTree(base, last_claims=lambda source: ledger.claims_by(owner_of(ONE, source)))


def says(owner: str, *providers: Provider, places: bool = True) -> Answer:
    """All that these providers have."""
    said = {
        one.uuid: Reported(Claims(places, frozenset(one.inventory), one.traits), one)
        for one in providers
    }
    return Answer(owner, said, sets_inventory=frozenset(said))


def said_by(*answers: Answer, unanswered: Iterable[str] = ()) -> Answers:
    return Answers(answers, frozenset(unanswered), (ONE, TWO))
