"""Compiled (Numba) forms of the hot loops, one file per region; imported only through `credalset._compiled`."""
