"""What runs a part:

devices, resources, compiled plans and their executor. Imports base and graph only; never ops or plan.
"""
