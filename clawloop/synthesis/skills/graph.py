"""The tripartite graph of a domain (paper, 4.1): tools, atomic parameters and return fields, tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from clawloop.synthesis.skills.read import Tool

Relation = Literal["takes", "gives", "reads", "writes"]
_SHAPES = {"tool": "box", "field": "ellipse", "table": "cylinder"}


@dataclass(frozen=True, slots=True)
class Edge:
    """A tool takes or gives a field, or reads or writes a table."""

    tool: str
    relation: Relation
    node: str

    @property
    def part(self) -> Literal["field", "table"]:
        """Which part of the graph the edge's other end is in."""
        return "field" if self.relation in ("takes", "gives") else "table"


@dataclass(frozen=True, slots=True)
class Tripartite:
    """Three sets of nodes; every edge has a tool at one end. A field and a table may share a name."""

    tools: tuple[str, ...]
    fields: tuple[str, ...]
    tables: tuple[str, ...]
    edges: tuple[Edge, ...]

    def degree(self, part: str, node: str) -> int:
        """The number of tools that touch a field or a table."""
        return len({edge.tool for edge in self.edges if edge.node == node and edge.part == part})


def tripartite(tools: Iterable[Tool]) -> Tripartite:
    """The graph of some tools; nodes and edges are sorted, so that it depends on nothing but them."""
    given = sorted(tools, key=lambda tool: tool.name)
    edges: list[Edge] = []
    for tool in given:
        edges += [Edge(tool.name, "takes", name) for name in sorted(tool.params)]
        edges += [Edge(tool.name, "gives", name) for name in sorted(tool.gives)]
        edges += [Edge(tool.name, "reads", name) for name in tool.reads]
        edges += [Edge(tool.name, "writes", name) for name in tool.writes]
    ends = {part: tuple(sorted({e.node for e in edges if e.part == part})) for part in ("field", "table")}
    return Tripartite(tuple(tool.name for tool in given), ends["field"], ends["table"], tuple(edges))


def dot(graph: Tripartite, groups: Mapping[str, Iterable[str]] | None = None) -> str:
    """The graph in Graphviz's language; each group of tools gets a frame with its name.

    >>> print(dot(Tripartite(("find",), ("name",), (), (Edge("find", "takes", "name"),)), {"search": ["find"]}))
    digraph domain {
      rankdir=LR;
      "tool find" [label="find", shape=box];
      "field name" [label="name", shape=ellipse];
      subgraph cluster_0 { label="search"; "tool find"; }
      "field name" -> "tool find" [label="takes"];
    }
    """
    lines = ["digraph domain {", "  rankdir=LR;"]
    for part, names in (("tool", graph.tools), ("field", graph.fields), ("table", graph.tables)):
        lines += [f"  {_quoted(part, name)} [label={_quoted(name)}, shape={_SHAPES[part]}];" for name in names]
    for index, (group, tools) in enumerate((groups or {}).items()):
        inside = " ".join(f"{_quoted('tool', name)};" for name in tools)
        lines.append(f"  subgraph cluster_{index} {{ label={_quoted(group)}; {inside} }}")
    for edge in graph.edges:
        ends = [_quoted(edge.part, edge.node), _quoted("tool", edge.tool)]
        if edge.relation in ("gives", "writes"):
            ends.reverse()
        lines.append(f'  {" -> ".join(ends)} [label="{edge.relation}"];')
    return "\n".join([*lines, "}"])


def _quoted(*words: str) -> str:
    """Words as one name in Graphviz's language, whatever letters they have."""
    text = " ".join(words).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def common(graph: Tripartite, tools: Iterable[str]) -> Counter[str]:
    """How often some tools touch each table; a write counts twice."""
    chosen = set(tools)
    return Counter(
        {
            table: sum(
                2 if edge.relation == "writes" else 1
                for edge in graph.edges
                if edge.node == table and edge.part == "table" and edge.tool in chosen
            )
            for table in graph.tables
        }
    )
