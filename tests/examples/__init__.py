"""Read these first: each shows one part of the project at work, in a page, with nothing mocked.

``test_diff``       what is to be done, worked out from two snapshots
``test_apply``      how it is sent, and what is known afterwards
``test_reader``     how Placement is read, and why mostly in one request
``test_ownership``  who may change what, where several write to one tree

They run in a second or two: ``pytest tests/examples``.
"""
