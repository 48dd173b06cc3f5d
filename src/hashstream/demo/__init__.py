"""What `hashstream demo` does: another process streams images into a table, this one searches it meanwhile; the other
is killed, the table is opened again and goes on. Then it says what came of it, and draws two pictures."""

from hashstream.demo.story import Killed, Learned, demo

__all__ = ["Killed", "Learned", "demo"]
