"""What a program holds: sessions, and what a run is asked for and given.

Floor 4: may import every floor below.
"""
