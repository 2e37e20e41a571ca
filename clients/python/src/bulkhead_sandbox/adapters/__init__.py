"""Sandboxes in the slots that frameworks for agents have for them.

Each module needs its framework and is imported by its own name: ``inspect_ai``,
``deepagents``, ``openai_agents`` and ``smolagents``.
"""
