"""One root and a device below it: snapshots, statements and ledgers in a line each."""

from collections.abc import Iterable

from agent.ownership.ledger import Holding, Ledger
from agent.ownership.policy import AttachedPolicy, Policy
from agent.ownership.statement import Assertion, Statement, Statements
from reportclient.model import Inventory, Provider
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


def holding(classes: str = "", traits: str = "", *, provider: bool = False) -> Holding:
    return Holding(provider, names(classes), names(traits))


def kept(*rows: tuple[str, str, Holding]) -> Ledger:
    """Rows are managers, providers and claims."""
    ledger = Ledger(begun=True)
    for manager, uuid, held in rows:
        ledger = ledger.adding(manager, uuid, held)
    return ledger


def says(manager: str, *providers: Provider, places: bool = True) -> Statement:
    """All that these providers have."""
    said = {
        one.uuid: Assertion(Holding(places, frozenset(one.inventory), one.traits), one)
        for one in providers
    }
    return Statement(manager, said, inventoried=frozenset(said))


def answers(*statements: Statement, silent: Iterable[str] = ()) -> Statements:
    return Statements(statements, frozenset(silent), (ONE, TWO))
