"""`python -m rhel_hw.cli`."""

from rhel_hw.cli import main

main()
