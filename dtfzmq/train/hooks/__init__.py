"""Hooks for monitored sessions: what stops them, logs, counts, saves."""
