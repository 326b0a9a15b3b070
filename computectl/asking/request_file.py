"""Read a request from YAML; every error has the file, the line and the key.  Pure.

The keys are Placement's parameters; ``groups`` has the groups with a suffix::

    resources: {VCPU: 2, MEMORY_MB: 512}
    required: [HW_CPU_X86_AVX2, "in:CUSTOM_A,CUSTOM_B"]
    groups:
      _ACCEL: {resources: {ACCELERATOR: 1}, in_tree: 0c5f…}
    root_required: ["!CUSTOM_WINDOWS_LICENSE_POOL"]
    same_subtree: [[_COMPUTE, _ACCEL]]
"""

from computectl.asking.constraints import OF_GROUPS
from drivers.yaml_file import Field, read
from reportclient.candidates import BadQuery, RequestGroup, ResourceRequest
from reportclient.candidates.request import UNSUFFIXED
from reportclient.candidates.text import read_root

_OF_REQUEST = ("groups", "group_policy", "root_required", "same_subtree", "limit")


def read_request_file(text: str, source: str) -> ResourceRequest:
    """Return the request of a YAML text.  :raises BadFile: with all places of errors."""
    top = read(text, source)
    fields = top.mapping((*OF_GROUPS, *_OF_REQUEST))
    groups = fields["groups"].mapping() if "groups" in fields else {}
    try:
        root_traits = read_root(*_texts(fields.get("root_required")))
    except BadQuery as err:
        raise fields["root_required"].error(str(err)) from None
    together = fields["same_subtree"].items() if "same_subtree" in fields else ()
    return ResourceRequest(
        _group(top, fields, UNSUFFIXED),
        {name: _group(group, group.mapping(OF_GROUPS), name) for name, group in groups.items()},
        fields["group_policy"].text() if "group_policy" in fields else None,
        *root_traits,
        frozenset(frozenset(_texts(item)) for item in together),
        fields["limit"].whole() if "limit" in fields else None,
    )


def _group(where: Field, fields: dict[str, Field], suffix: str) -> RequestGroup:
    resources = fields["resources"].mapping() if "resources" in fields else {}
    try:
        return RequestGroup.from_values(
            {name: amount.whole() for name, amount in resources.items()},
            _texts(fields.get("required")),
            _texts(fields.get("member_of")),
            fields["in_tree"].text() if "in_tree" in fields else None,
            suffix=suffix,
        )
    except BadQuery as err:
        raise where.error(str(err)) from None


def _texts(field: Field | None) -> list[str]:
    """Return a text, or a list of texts, as a list."""
    if field is None:
        return []
    return [field.text()] if field.scalar and not field.empty else [i.text() for i in field.items()]
