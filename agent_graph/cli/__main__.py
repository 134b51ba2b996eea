"""`python -m agent_graph.cli` is `agent-graph`."""

from agent_graph.cli import main

__all__: list[str] = []

if __name__ == '__main__':
    main()
