"""The traits that the agent itself sets on roots.  Pure.

They say what the host is (COMPUTE_NODE, owner traits), what its drivers can do (COMPUTE_*) and
whether it is disabled.  All other traits belong to drivers, provider files or other services.

The service tag is a trait on each root of a service that has many.  Nodes move between services
(Ironic's hash ring, a conductor group).  Both services report the same provider then, so an owner
trait that all agents share can't tell which of them owns it.  A service that begins to report a
node replaces the other's tag by its own.  A service that stops may remove the node's providers
only while the root has its own tag.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.ownership.answers import Answer, Answers, Reported
from agent.ownership.ledger import AGENT, STATUS
from agent.ownership.policy import DISABLED
from agent.reporting.condition import PART, Condition
from reportclient.model import Provider
from reportclient.provider_tree import Claims
from reportclient.snapshot import Snapshot

COMPUTE_NODE = "COMPUTE_NODE"

_PREFIX = "CUSTOM_COMPUTE_AGENT_"
_TAG = re.compile(_PREFIX + r"[0-9A-F]{8}(_[0-9A-F]{4}){3}_[0-9A-F]{12}")
_IMAGE_TYPES = ("aki", "ami", "ari", "iso", "qcow2", "raw", "vdi", "vhd", "vhdx", "vmdk", "ploop")
_SAME_NAMES = (
    *("accelerators", "address_space_emulated", "address_space_passthrough", "device_tagging"),
    *("ephemeral_encryption", "ephemeral_encryption_luks", "ephemeral_encryption_plain"),
    *("mem_backing_file", "trusted_certs", *(f"image_type_{kind}" for kind in _IMAGE_TYPES)),
)

CAPABILITY_TRAITS: Mapping[str, str] = {
    "supports_attach_interface": "COMPUTE_NET_ATTACH_INTERFACE",
    "supports_tagged_attach_interface": "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
    "supports_remote_managed_ports": "COMPUTE_REMOTE_MANAGED_PORTS",
    "supports_bfv_rescue": "COMPUTE_RESCUE_BFV",
    "supports_migrate_to_same_host": "COMPUTE_SAME_HOST_COLD_MIGRATE",
    "supports_stateless_firmware": "COMPUTE_SECURITY_STATELESS_FIRMWARE",
    "supports_secure_boot": "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
    "supports_socket_pci_numa_affinity": "COMPUTE_SOCKET_PCI_NUMA_AFFINITY",
    "supports_virtio_fs": "COMPUTE_STORAGE_VIRTIO_FS",
    "supports_tagged_attach_volume": "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "supports_extend_volume": "COMPUTE_VOLUME_EXTEND",
    "supports_multiattach": "COMPUTE_VOLUME_MULTI_ATTACH",
    **{f"supports_{name}": f"COMPUTE_{name.upper()}" for name in _SAME_NAMES},
}
"""Traits by the capability names of Nova's drivers."""


def identifying_traits(owners: Iterable[str]) -> frozenset[str]:
    """Return the owner traits of which each identifies a provider as this agent's.

    Other services set standard ones such as OWNER_NOVA too, so these identify only if the
    operator configured no custom trait.
    """
    return frozenset(trait for trait in owners if trait.startswith("CUSTOM_")) or frozenset(owners)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTraits:
    """The agent's own claims: its root (``host``) and its traits.

    ``disabled`` is the service status, ``None`` if unknown.
    """

    host: Provider
    capabilities: Iterable[Mapping[str, bool]]
    disabled: bool | None
    owners: Iterable[str]
    images_excluded: Iterable[str] = ()
    service_tag: str = ""

    def added_to(self, drivers: Answers, observed: Snapshot) -> Answers:
        """Return the answers with the agent's own: the root and its traits, and owner traits.

        The host has a capability if one of its drivers has it.  The trait of a capability that no
        driver names stays as it is, and COMPUTE_STATUS_DISABLED does so while the status is
        unknown.  All other roots get the owner traits; children don't: each would cost a call.
        """
        named = [item for driver in self.capabilities for item in driver.items()]
        named_traits = {CAPABILITY_TRAITS[name] for name, _ in named if name in CAPABILITY_TRAITS}
        able = {CAPABILITY_TRAITS[name] for name, yes in named if yes and name in CAPABILITY_TRAITS}
        able -= {CAPABILITY_TRAITS.get(f"supports_image_type_{it}") for it in self.images_excluded}
        owned, before, tag = frozenset(self.owners), observed.get(self.host.uuid), self.service_tag
        present = owned | able | ({COMPUTE_NODE, tag} - {""})
        others = tags_of_others(before.traits if tag and before else (), tag)
        reported = {self.host.uuid: Reported(Claims(provider=True, traits=present), self.host)}
        roots = [observed.providers[uuid] for uuid in observed.children(None)]
        roots = [provider for provider in roots if identifying_traits(owned) & provider.traits]
        for answer in drivers.in_order:
            claimed = answer.reported.values()
            roots += [each.provider for each in claimed if each.provider.parent_uuid is None]
        for provider in roots:
            if provider.uuid != self.host.uuid:
                reported[provider.uuid] = Reported(Claims(traits=owned), provider)
        absent = Claims(traits=frozenset(named_traits - able) | others)
        own = Answer(AGENT, reported, absent={self.host.uuid: absent})
        status = Claims(traits=frozenset({DISABLED}))
        if self.disabled is None:
            return drivers.with_answer((own,), frozenset({STATUS}))
        if self.disabled:
            switch = Answer(STATUS, {self.host.uuid: Reported(status, self.host)})
        else:
            switch = Answer(STATUS, absent={self.host.uuid: status})
        return drivers.with_answer((own, switch))


# -- the service tag


def tag_of(service: str) -> str:
    """Return the service tag for the UUID in a service's ``compute_id``.

    >>> tag_of("c0ffee00-0000-4000-8000-000000000001")
    'CUSTOM_COMPUTE_AGENT_C0FFEE00_0000_4000_8000_000000000001'
    """
    return _PREFIX + service.upper().replace("-", "_")


def service_of(tag: str) -> str:
    """Return the UUID of the service with this tag."""
    return tag.removeprefix(_PREFIX).lower().replace("_", "-")


def is_service_tag(trait: str) -> bool:
    """Return whether a trait is a service tag."""
    return _TAG.fullmatch(trait) is not None


def tags_of_others(traits: Iterable[str], own: str) -> frozenset[str]:
    """Return the service tags among these traits that are not ``own``."""
    return frozenset(trait for trait in traits if trait != own and is_service_tag(trait))


def other_reporters(
    before: Provider | None, root: Provider | None, node: str, tag: str
) -> Iterator[Condition]:
    """Yield conditions if another service reports the root too, such as a copied disk's.

    ``before`` is the root as this agent left it, ``root`` as it was read; ``tag`` is this service's
    tag, empty if it has one node only.
    """
    if before is None or root is None:
        return
    if tag in before.traits and (others := tags_of_others(root.traits, tag)):
        service = service_of(min(others))
        text = (
            f"is reported by the service with compute_id {service} too, and each takes it from the "
            "other"
        )
        step = "let the driver of only one of the two name this node"
        yield Condition(text, step, "node", kind=PART)
    if before.name == node != root.name:
        text = (
            f"provider {root.uuid} of {node} was renamed to {root.name} by another service, and "
            "this agent renames it back. If another host has the same compute_id, from a copied "
            "disk, each host takes the provider from the other"
        )
        step = "on one of them stop the agent, empty its state_path, start the agent"
        yield Condition(text, step, "name", kind=PART)
