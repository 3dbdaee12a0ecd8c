"""A bench as an instrument: SCPI over a socket, and the bench that is at the other end of it."""
