"""The one place of the gateway with sockets, clocks and threads: carries out what sessions decide."""
