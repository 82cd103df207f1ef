"""Engines value lists: in this process, or with Ray; saved matrices stand in for one."""
