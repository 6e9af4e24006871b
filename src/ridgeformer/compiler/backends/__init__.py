"""Backends: how programs become circuits, for each kind of attention and product."""
