"""Files written whole or not at all."""

from rhel_hw.files import folder, write_atomically

__all__ = ["folder", "write_atomically"]
