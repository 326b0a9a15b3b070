"""What is asked of Placement, and what it answers; typed, checked, pure.

``reportclient.candidates`` has the names that callers want.
"""
