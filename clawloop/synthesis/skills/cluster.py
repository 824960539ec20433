"""Clustering tools into skills by a weighted affinity over the graph nodes that they share (paper, 4.1)."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import networkx

from clawloop.synthesis.skills.graph import Tripartite, common, tripartite
from clawloop.synthesis.skills.read import Tool

WEIGHTS = {"takes": 1.0, "gives": 1.0, "reads": 1.0, "writes": 2.0}
_SEED = 0


@dataclass(frozen=True, slots=True)
class Skill:
    """Tools that belong together, named after the table that they touch most."""

    name: str
    tools: tuple[str, ...]


def affinity(graph: Tripartite, one: str, other: str) -> float:
    """How close two tools are: over each shared node, the product of both weights by the tools that touch it.

    A node that many tools touch says little, one that only these two touch says most. A tool that touches a node in
    two ways counts with the heavier.
    """
    mine, yours = _ties(graph, one), _ties(graph, other)
    return sum(mine[node] * yours[node] / graph.degree(*node) for node in mine.keys() & yours.keys())


def cluster(tools: Mapping[str, Tool], resolution: float = 1.2) -> tuple[Skill, ...]:
    """Skills by Louvain communities with a fixed seed; every tool is in one.

    Args:
        tools: of one domain, by name.
        resolution: of the modularity; higher gives more and smaller skills.
    """
    graph = tripartite(tools.values())
    close = networkx.Graph()
    close.add_nodes_from(graph.tools)
    for one, other in itertools.combinations(graph.tools, 2):
        if (weight := affinity(graph, one, other)) > 0:
            close.add_edge(one, other, weight=weight)
    found = networkx.community.louvain_communities(close, weight="weight", resolution=resolution, seed=_SEED)
    skills: list[Skill] = []
    for group in sorted((sorted(group) for group in found), key=lambda group: (-len(group), group)):
        touched = common(graph, group)
        free = [table for table in touched if table not in {skill.name for skill in skills}]
        name = max(sorted(free), key=lambda table: touched[table]) if free else group[0]
        skills.append(Skill(name, tuple(name for name in tools if name in group)))
    return tuple(sorted(skills, key=lambda skill: skill.name))


def _ties(graph: Tripartite, tool: str) -> dict[tuple[str, str], float]:
    ties: dict[tuple[str, str], float] = {}
    for edge in graph.edges:
        if edge.tool == tool:
            node = edge.part, edge.node
            ties[node] = max(ties.get(node, 0.0), WEIGHTS[edge.relation])
    return ties
