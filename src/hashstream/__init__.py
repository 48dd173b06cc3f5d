"""Online hashing: compact binary codes learned from a labelled stream.

>>> import hashstream as hs
"""

from hashstream import evaluate, hamming

__version__ = "0.1.0"

__all__ = ["evaluate", "hamming"]
