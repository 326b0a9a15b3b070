"""One agent as a process, real parts around it, and each thing that can break: afterwards
Placement says what the driver says, nothing foreign is lost, and nobody restarted the agent.

``tools/test.sh --faults`` runs these; what the last such run said is in ``docs/faults.rst``.
"""
