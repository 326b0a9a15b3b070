"""Queries for allocation candidates: the public names of ``query``.  Pure.

>>> request = ResourceRequest(
...     RequestGroup.from_values({"VCPU": 2, "MEMORY_MB": 512}, required=["HW_CPU_X86_AVX2"]),
...     {
...         "_ACCEL": RequestGroup.from_values(
...             {"ACCELERATOR_FPGA": 1}, required=["in:CUSTOM_A,CUSTOM_B"]
...         )
...     },
... )
>>> to_query_string(request).split("&")[2:]
['resources_ACCEL=ACCELERATOR_FPGA:1', 'required_ACCEL=in:CUSTOM_A,CUSTOM_B']

``reportclient.candidates.asking`` sends queries, and leaves disabled hosts out.
"""

from reportclient.candidates.answers import (
    AllocationCandidates,
    AllocationRequest,
    ProviderSummary,
)
from reportclient.candidates.request import BadQuery, RequestGroup, ResourceRequest
from reportclient.candidates.text import read_request, to_query_string

__all__ = [
    "AllocationCandidates",
    "AllocationRequest",
    "BadQuery",
    "ProviderSummary",
    "RequestGroup",
    "ResourceRequest",
    "read_request",
    "to_query_string",
]
