"""Directories of plain files, written atomically and read without trust. No pickle: nothing that is loaded runs code.

`bundle` writes and reads such directories, `plain` says what may stand in them; each room turns its own objects into
plain values and back (`scores.saved`, `calibration.saved`, `predictors.saved`, `classifier.saved`), and `load`, at the
top, asks the right one.
"""
