"""Judges of a single report: its names, amounts, and the root."""

import re
from collections.abc import Iterable

from driverkit.broken import Broken, DriverRaised, Inapplicable, broken_by_errors
from driverkit.differences import first_lines, name_and_uuid
from driverkit.stage import Root, Stage, checked_call
from drivers.abilities import Lifecycle
from drivers.errors import DriverError, DriverNotReady
from drivers.loaded import LoadedDriver
from reportclient.errors import NameTaken
from reportclient.model import Provider

STATUS = "COMPUTE_STATUS_DISABLED"


def answers(stage: Stage) -> None:
    """Expect that the driver opens, names nodes, and reports at least one of them."""
    try:
        loaded = stage.open()
        roots = stage.roots(loaded)
        trees = ((root, list(root.desired(loaded).walk())) for root in roots)
        reported = [root for root, tree in trees if tree != [Provider(root.uuid, root.node)]]
    except DriverRaised as raised:
        if isinstance(raised.err, DriverNotReady):
            raise Broken(f"{raised}\n(the kit needs a backend that answers here)") from None
        raise Broken(raised.at_length()) from None
    if not roots:
        raise Broken("get_available_nodes() returned no node; the kit needs a backend with one")
    if not reported:
        names = ", ".join(root.node for root in roots)
        raise Broken(
            f"nothing was reported for any node ({names}): no inventory, trait, aggregate or child"
        )


def closes(stage: Stage) -> None:
    """Judge ``cleanup_host``, called first of all, and after ``init_host``."""
    loaded = stage.create()
    if not loaded.can(Lifecycle):
        raise Inapplicable("the driver opens nothing: it has no init_host and cleanup_host")
    with broken_by_errors("without init_host "):
        stage.clean_up(loaded)
    with broken_by_errors(""):
        stage.clean_up(stage.open())


def node_names(stage: Stage) -> None:
    """Judge whether names stay the same, in one driver and in another."""
    loaded, other = stage.open(), stage.open()
    first, uuids = _nodes(stage, loaded), checked_call("get_nodenames_by_uuid", loaded.node_uuids)
    for again, text in (
        (_nodes(stage, loaded), "asked again"),
        (_nodes(stage, other), "a new driver"),
    ):
        if set(again) != set(first):
            raise Broken(f"first {_listed(first)}; {text}: {_listed(again)}")
    if uuids != (later := checked_call("get_nodenames_by_uuid", other.node_uuids)):
        raise Broken(f"UUIDs by node: first {uuids}; a new driver: {later}")
    if unknown := sorted(uuids.keys() - first):
        raise Broken(
            f"get_nodenames_by_uuid() names {_listed(unknown)}, get_available_nodes() does not"
        )


def _nodes(stage: Stage, loaded: LoadedDriver) -> list[str]:
    try:
        return stage.nodes(loaded)
    except DriverRaised as raised:
        if type(raised.err) is DriverError:  # the result is not a list of names
            raise Broken(str(raised.err)) from None
        raise


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def root_stays(stage: Stage) -> None:
    """Judge whether the root stays, and all other roots are sharing providers."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        tree = root.fresh()
        root.update_provider_tree(loaded, tree)
        desired = tree.freeze()
        provider = desired.get(root.uuid)
        if provider is None:
            raise Broken(f"the root provider {root.node} ({root.uuid}) was removed")
        if provider.name != root.node:
            raise Broken(f"the root provider {root.node} was renamed to {provider.name}")
        if provider.parent_uuid is not None:
            above = name_and_uuid(desired.providers[provider.parent_uuid])
            raise Broken(f"the root provider {root.node} was put below {above}")
        for uuid in desired.children(None):
            other = desired.providers[uuid]
            if uuid != root.uuid and not other.shares:
                raise Broken(
                    f"{name_and_uuid(other)} is a second root beside {root.node}, "
                    "and shares nothing "
                    "(it has no trait MISC_SHARES_VIA_AGGREGATE)"
                )


def status_trait(stage: Stage) -> None:
    """Judge whether the driver sets the trait (foreign-traits: whether it removes it)."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        desired = root.desired(loaded)
        marked = [it.name for it in desired.walk() if STATUS in it.traits]
        if marked:
            raise Broken(f"node {root.node}: {STATUS} was set on {_listed(marked)}")


def valid(stage: Stage) -> None:
    """Judge whether the tree, the agent and Placement accept the report."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        try:
            report = root.report(loaded)
        except DriverRaised as raised:
            if isinstance(raised.err, ValueError):  # the tree refused the value
                raise Broken(raised.at_length()) from None
            raise
        refused = [*report.failed.items(), ("the rest", report.error)]
        # The rule own-names is about names that are taken.
        answers = ((key, err) for key, err in refused if err and not isinstance(err, NameTaken))
        wrong = [str(problem) for problem in report.plan.problems]
        names = report.plan.names
        wrong += [f"{names.get(key, key)}: Placement answers: {err}" for key, err in answers]
        if wrong:
            raise Broken(f"node {root.node}:\n{first_lines(wrong)}")


def own_names(stage: Stage) -> None:
    """Judge whether the names of children are unique in the cloud."""
    loaded = stage.open()
    taken: dict[str, tuple[Root, Provider]] = {}
    for root in stage.roots(loaded):
        desired = root.desired(loaded)
        wrong = []
        for provider in desired.walk():
            title = name_and_uuid(provider)
            is_child = provider.parent_uuid is not None
            if is_child and not is_own(provider.name, root.node, root.uuid, stage.context.host):
                why = "its name could also be that of the same device of another host"
                wrong.append(f"{title}: {why}")
            other, theirs = taken.get(provider.name, (root, provider))
            if theirs.uuid != provider.uuid:
                wrong.append(f"{title}: node {other.node} has {name_and_uuid(theirs)} already")
        if wrong:
            raise Broken(f"node {root.node}:\n{first_lines(wrong)}")
        taken.update({provider.name: (root, provider) for provider in desired.walk()})


_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_MAC = re.compile(r"(?<![0-9a-f])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,7}(?![0-9a-f])", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]+")
_SERIAL_LENGTH, _SERIAL_DIGITS = 8, 4


def is_own(name: str, *owners: str) -> bool:
    """Whether a device of another host is unlikely to have this name.

    The name contains the name or UUID of one of ``owners`` (the node, its host), or an
    identifier that is unique by itself: a UUID, a hardware address, a serial number.
    """
    if any(owner.lower() in name.lower() for owner in owners if owner):
        return True
    serials = (
        word
        for word in _WORD.findall(name)
        if len(word) >= _SERIAL_LENGTH and sum(map(str.isdigit, word)) >= _SERIAL_DIGITS
    )
    return bool(_UUID.search(name) or _MAC.search(name)) or any(serials)
