"""From graph to parts: prune, place, partition, verify. Pure functions of node lists. Imports base and graph only."""
