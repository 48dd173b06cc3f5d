"""The demo: another process streams images into a table while this one searches it. The other process is killed, the
table is reopened, and learning continues; then two figures show how the answers improved."""

from hashstream.demo.run import DemoResult, Recovery, Started, demo
from hashstream.demo.setup import Checkpoint, Comparison, Setup

__all__ = ["Checkpoint", "Comparison", "DemoResult", "Recovery", "Setup", "Started", "demo"]
