"""`Forest`: token sequences that share their beginnings, so that a model reads each beginning once.

The variants of a prompt in which one label is flipped agree up to that label, many queries follow one
context, and all numbers of a format begin with few digits. Each of these is a forest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Tokens = tuple[int, ...]

ROOT = -1
"""What stands before every sequence."""


class Forest:
    """Tokens that follow each other: a node is one token after all those on the path to it.

    The same token after the same path is the same node. Nodes are numbered in the order in which they
    were grown, so that a parent's number is below its children's.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        """How many tokens stand before each node."""
        self.children: dict[int, dict[int, int]] = {ROOT: {}}

    def __len__(self) -> int:
        return len(self.tokens)

    def grow(self, tokens: Sequence[int], after: int = ROOT) -> list[int]:
        """The nodes of a sequence that follows a node, new ones where it leaves what has grown."""
        nodes, node = [], after
        for token in tokens:
            parent, node = node, self.children[node].get(token, len(self))
            if node == len(self):
                self.tokens.append(token)
                self.parents.append(parent)
                self.depths.append(0 if parent == ROOT else self.depths[parent] + 1)
                self.children[parent][token] = node
                self.children[node] = {}
            nodes.append(node)
        return nodes

    def path(self, node: int) -> list[int]:
        """The nodes from the first token to this one; none for the root."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def text(self, node: int) -> list[int]:
        """The tokens on the path to a node."""
        return [self.tokens[step] for step in self.path(node)]

    def preorder(self, first: int = 0) -> list[int]:
        """All nodes from the `first` on, each before its children and its subtree in one piece.

        Where the order is cut, all tokens that later nodes follow on the left of the cut are on the path to
        the first node on its right.
        """
        order, stack = [], [ROOT]
        while stack:
            node = stack.pop()
            if node >= first:
                order.append(node)
            stack.extend(reversed(self.children[node].values()))
        return order

    def leaves(self, first: int = 0) -> Iterator[int]:
        """The nodes from the `first` on that nothing follows."""
        return (node for node in range(first, len(self)) if not self.children[node])
